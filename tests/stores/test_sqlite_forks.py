"""A process forked while a store was open takes nothing from it, whatever it does and however it ends."""

import os
import subprocess
import sys

import pytest

from fedplug.errors import StoreError
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of

# What the child does ends with its whole interpreter, so that everything it holds is let go of.
PROGRAM = """
import os, sys
import numpy as np
from fedplug.errors import StoreError
from fedplug.stores.sqlite import SqliteStore

def commit(number):
    state = {"w": np.full(5, number)}
    process.commit(number, client_states={"a": state}, server_state=state)

store = SqliteStore(sys.argv[1])
process = store.open_process("p", {})
commit(0)
if child := os.fork():
    os.waitpid(child, 0)
    commit(1)
    os.kill(os.getpid(), 9)
try:
    exec(sys.argv[2])
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("child", ["pass", "del store, process", "store.close()", "commit(1)"])
def test_a_forked_child_takes_nothing_from_the_store_of_its_parent(tmp_path, child):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "s"), child]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-9, "")
    refusal = "was opened before a fork(), by the parent of this process; use it only there"
    assert (refusal in done.stdout) == (child == "commit(1)")
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p")
        assert process.last_round == 1
        process.verify()


def test_a_segment_that_is_there_already_is_not_removed(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, ["a"]))
        (first,) = os.listdir(tmp_path / "s/segments")
        store._segments.next -= 1
        with pytest.raises(StoreError, match="File exists; round 0 is intact"):
            process.commit(1, **round_of(1, ["a"]))
        assert os.listdir(tmp_path / "s/segments") == [first]
        process.verify()
