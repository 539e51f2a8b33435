"""Ctrl-C at any line of a commit leaves the last round or the next one, whole, and a store that goes on."""

from __future__ import annotations

import linecache
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fedplug.stores
from fedplug.stores.memory import MemoryStore
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing import expect
from fedplug.testing.rounds import round_of

STORES = str(Path(fedplug.stores.__file__).parent)


def interrupted(line, call, *arguments, **keywords):
    """Returns whether a call reached its n-th line in the stores, where it was interrupted."""
    left, seen = line, set()

    def trace(frame, event, argument):
        nonlocal left
        del argument
        if not frame.f_code.co_filename.startswith(STORES):
            return None
        if event == "line":
            place = frame, frame.f_lineno
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if place in seen and text.lstrip().startswith("with "):
                return trace  # Python lets no signal in between the end of a block and its `__exit__`
            seen.add(place)
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(*arguments, **keywords)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def opened_elsewhere(folder):
    """The round at which a copy of the store opens: an interrupted round is not committed later."""
    copy = folder / "copy"
    shutil.copytree(folder / "store", copy)
    with SqliteStore(copy) as store:
        number = store.open_process("p", {}).last_round
    shutil.rmtree(copy)
    return number


# A file that was open at the interrupt is closed by the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_interrupt_leaves_a_round_that_is_whole(kind, tmp_path):
    with MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "store") as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, ["a", "b"]))
        line, going_on = 0, True
        while going_on:
            last = process.last_round
            going_on = interrupted(line, process.commit, last + 1, **round_of(last + 1, ["a", "b"]))
            assert process.last_round in (last, last + 1)
            kept = round_of(process.last_round, ["a", "b"])
            assert process.metadata == kept["metadata"]
            expect.same_tensors("the server's state", process.read_server(), kept["server_state"])
            for client, state in process.read_clients(["a", "b"]).items():
                expect.same_tensors(client, state, kept["client_states"][client])
            if kind == "sqlite" and line % 25 == 0:
                assert opened_elsewhere(tmp_path) == process.last_round
            line += 1
        assert line > 50
        assert process.last_round > last
        with ThreadPoolExecutor(1) as thread:  # no lock is left taken
            number = process.last_round + 1
            thread.submit(process.commit, number, **round_of(number, ["a"])).result(timeout=60)
