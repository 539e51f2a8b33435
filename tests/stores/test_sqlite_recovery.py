"""An index that lost transactions is noticed: opening never goes back to an older round."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from stored import files_of, flip, values

import fedplug
from fedplug.cli import main
from fedplug.errors import CorruptStoreError
from fedplug.stores import note
from fedplug.stores.copying import copy_store
from fedplug.stores.repair import repair_store
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of

ROUNDS = 7
CLIENTS = [f"c{number}" for number in range(ROUNDS)]

# Ends as by kill -9, with all rounds in the log; segments were moved and deleted on the way.
KILLED = """
import os, sys
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of
process = SqliteStore(sys.argv[1]).open_process("p", {})
for number in range(int(sys.argv[2])):
    process.commit(number, **round_of(number, [f"c{number}", "c0"]))
os._exit(0)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed") / "s"
    subprocess.run([sys.executable, "-c", KILLED, str(folder), str(ROUNDS)], check=True)
    return folder


@pytest.fixture
def folder(killed, tmp_path):
    return shutil.copytree(killed, tmp_path / "s")


def check_last_round(folder):
    """Reads the store of `KILLED`, which must be whole."""
    with SqliteStore(folder) as store:
        process = store.open_process("p", {})
        process.verify()
        assert process.last_round == ROUNDS - 1
        assert process.metadata == {"round": ROUNDS - 1}
        assert process.read_server()["w"][0] == ROUNDS - 1
        states = process.read_clients(CLIENTS)
        newest = [ROUNDS - 1, *range(1, ROUNDS)]
        assert [states[client]["w"][0] for client in CLIENTS] == newest


def check_noticed(folder):
    """The store opens at the last round, or is refused, unchanged, and can be repaired; returns which."""
    before = files_of(folder)
    refused = refuses(folder)
    if refused:
        assert files_of(folder) == before
        report = repair_store(folder)
        assert report == ([f"process 'p' is restored to round {ROUNDS - 1}, with {ROUNDS} clients"], [])
    check_last_round(folder)
    return refused


def refuses(folder):
    try:
        SqliteStore(folder).close()
    except CorruptStoreError:
        return True
    return False


def test_the_log_of_a_killed_store_holds_its_rounds(folder):
    assert (folder / "index.sqlite3-wal").stat().st_size > 50_000
    check_last_round(folder)


def test_a_flipped_bit_anywhere_in_the_log_costs_no_round(killed, tmp_path):
    size, page, head, frame = (killed / "index.sqlite3-wal").stat().st_size, 4096, 32, 24
    frames = (size - head) // (page + frame)
    starts = [head + number * (page + frame) for number in range(frames)]
    chance = random.Random(0)
    places = [
        *range(0, head, 3),  # the header of the log
        *(start + chance.randrange(frame) for start in starts[::2]),  # headers of pages
        *(start + frame + chance.randrange(100) for start in starts[::5]),  # headers within pages
        *(start + frame + chance.randrange(page) for start in starts[::2]),  # pages
    ]
    refused = []
    for place in places:
        shutil.copytree(killed, tmp_path / "s")
        flip(tmp_path / "s" / "index.sqlite3-wal", place, chance.randrange(8))
        refused.append(check_noticed(tmp_path / "s"))
        shutil.rmtree(tmp_path / "s")
    assert len(places) > 50
    assert any(refused)


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.99, None])
def test_a_truncated_or_missing_log_costs_no_round(folder, kept):
    log = folder / "index.sqlite3-wal"
    if kept is None:
        log.unlink()
    else:
        os.truncate(log, int(kept * log.stat().st_size))
    refused = check_noticed(folder)
    assert refused or kept == 0.99


def history(folder, keep_rounds):
    """Yields after each step: commits, moves, a way back, another process; the store is closed between."""
    number = 0
    for step in range(10):
        with SqliteStore(folder, keep_rounds) as store:
            process = store.open_process("p", {})
            if step == 5 and keep_rounds > 1:
                process.rewind(process.last_round - 1)
            elif step == 7:
                store.open_process("q", {}).commit(0, **round_of(0, ["a"]))
            else:
                number = 0 if process.last_round is None else process.last_round + 1
                process.commit(number, **round_of(10 * number + step, [f"c{step}", "c0"]))
        yield step


@pytest.mark.parametrize("steps", [6, 10], ids=["ends with a way back", "ends with a commit"])
@pytest.mark.parametrize("keep_rounds", [1, 3])
def test_an_older_copy_of_the_index_costs_no_round(tmp_path, keep_rounds, steps):
    folder, copies = tmp_path / "s", []
    for step in history(folder, keep_rounds):
        if step == steps:
            break
        copies.append((folder / "index.sqlite3").read_bytes())
    with SqliteStore(folder, keep_rounds) as store:
        expected = {name: held(store, name) for name in store.processes()}
    shutil.copytree(folder, tmp_path / "kept")
    for older in copies[:-1]:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "kept", folder)
        (folder / "index.sqlite3").write_bytes(older)
        before = files_of(folder)
        if refuses(folder):
            assert files_of(folder) == before
            assert repair_store(folder).lost == []
        with SqliteStore(folder, keep_rounds) as store:
            assert {name: held(store, name) for name in store.processes()} == expected


@pytest.mark.parametrize("older", [True, False], ids=["older index", "no index"])
def test_clients_that_were_dropped_do_not_come_back(tmp_path, older):
    folder = tmp_path / "s"
    with SqliteStore(folder) as store:
        store.open_process("p", {}).commit(0, **round_of(0, "abc"))
    copy = (folder / "index.sqlite3").read_bytes()
    with SqliteStore(folder) as store:
        store.open_process("p").drop_clients("ac")
    (folder / "index.sqlite3").unlink()
    if older:
        (folder / "index.sqlite3").write_bytes(copy)
    assert refuses(folder) or older
    assert repair_store(folder).lost == []
    with SqliteStore(folder) as store:
        assert held(store, "p") == (0, {"round": 0}, {"b": 0}, 0)


def held(store, name):
    process = store.open_process(name)
    process.verify()
    return process.last_round, process.metadata, values(process), process.read_server()["w"][0]


@pytest.fixture
def unannounced(tmp_path):
    """A store at round 0, and the path of the segment of round 1 that a kill left behind."""
    folder = tmp_path / "s"
    with SqliteStore(folder) as store:
        store.open_process("p", {}).commit(0, **round_of(0, "abcd"))
    shutil.copytree(folder, tmp_path / "copy")
    with SqliteStore(tmp_path / "copy") as store:
        store.open_process("p").commit(1, **round_of(1, "b"))
    segment = max((tmp_path / "copy" / "segments").iterdir())
    return folder, shutil.copy(segment, folder / "segments" / "0000000002.segment")


def test_a_whole_segment_that_a_kill_left_is_committed_at_the_next_opening(unannounced):
    folder, _ = unannounced
    for _ in range(2):
        with SqliteStore(folder) as store:
            assert held(store, "p") == (1, {"round": 1}, {"a": 0, "b": 1, "c": 0, "d": 0}, 1)
    with SqliteStore(folder) as store:
        process = store.open_process("p")
        process.commit(2, **round_of(2, "abcd"))
        assert process.kept_rounds() == [2]
    assert len(os.listdir(folder / "segments")) == 1


def test_a_repeated_commit_lets_go_of_rounds_whose_states_it_had_let_go_of(tmp_path):
    folder, index = tmp_path / "s", tmp_path / "s" / "index.sqlite3"
    for number in range(3):
        older = index.read_bytes() if number else b""
        with SqliteStore(folder) as store:
            store.open_process("p", {}).commit(number, **round_of(number, "ab"))
            expected = held(store, "p")
    index.write_bytes(older)
    with SqliteStore(folder) as store:
        assert held(store, "p") == expected
        assert store.open_process("p").kept_rounds() == [2]


@pytest.mark.parametrize("kept", [0, 10, 700, -64, -1])
def test_a_segment_that_a_kill_left_incomplete_is_deleted(unannounced, kept):
    folder, segment = unannounced
    segment.write_bytes(segment.read_bytes()[:kept])
    with SqliteStore(folder) as store:
        assert held(store, "p") == (0, {"round": 0}, {"a": 0, "b": 0, "c": 0, "d": 0}, 0)
    assert not segment.exists()


def test_a_segment_of_which_the_disk_lost_a_part_is_set_aside(unannounced):
    folder, segment = unannounced
    flip(segment, 100)
    with SqliteStore(folder) as store:
        assert held(store, "p") == (0, {"round": 0}, {"a": 0, "b": 0, "c": 0, "d": 0}, 0)
        store.open_process("p").commit(1, **round_of(1, "b"))
    assert segment.with_name(segment.name + ".damaged").exists()


def test_a_segment_that_a_later_transaction_let_go_of_is_deleted(tmp_path):
    folder = tmp_path / "s"
    with SqliteStore(folder) as store:
        store.open_process("p", {}).commit(0, **round_of(0, "a"))
    (segment,) = (folder / "segments").iterdir()
    first = segment.read_bytes()
    with SqliteStore(folder) as store:
        store.open_process("p").commit(1, **round_of(1, "a"))
    segment.write_bytes(first)  # a kill before it was deleted
    with SqliteStore(folder) as store:
        assert held(store, "p") == (1, {"round": 1}, {"a": 1}, 1)
    assert not segment.exists()


def test_a_segment_whose_row_is_lost_is_not_deleted(tmp_path):
    folder = tmp_path / "s"
    with SqliteStore(folder) as store:
        store.open_process("p", {}).commit(0, **round_of(0, "a"))
    database = sqlite3.connect(folder / "index.sqlite3")
    database.execute("DELETE FROM segments")
    database.commit()
    database.close()
    with pytest.raises(CorruptStoreError, match="no row for this segment"):
        SqliteStore(folder)
    assert len(os.listdir(folder / "segments")) == 1


def test_a_store_that_is_older_than_its_segments_is_not_copied_or_shown(folder, tmp_path, capsys):
    (folder / "index.sqlite3-wal").write_bytes((folder / "index.sqlite3-wal").read_bytes()[:40_000])
    before = files_of(folder)
    with pytest.raises(CorruptStoreError, match=f"{folder} cannot be copied: .* is older than the segments"):
        copy_store(folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    for command in ("show", "verify", "copy"):
        target = [str(tmp_path / "copy")] if command == "copy" else []
        assert main(["store", command, str(folder), *target]) == 2
        assert "is older than the segments" in capsys.readouterr().err
    assert files_of(folder) == before


def test_a_copy_keeps_the_round_that_a_kill_left_unannounced(unannounced, tmp_path):
    folder, _ = unannounced
    copy_store(folder, tmp_path / "another")
    with SqliteStore(tmp_path / "another") as store:
        assert held(store, "p") == (1, {"round": 1}, {"a": 0, "b": 1, "c": 0, "d": 0}, 1)


def test_a_client_of_a_codec_does_not_continue_from_an_older_state(tmp_path):
    url, index, older = f"sqlite:///{tmp_path / 's'}", tmp_path / "s" / "index.sqlite3", None
    for number in range(4):
        with fedplug.open_store(url) as store:
            client = fedplug.ClientCodec(fedplug.codec("topk(0.5)"), store, "c")
            client.settle(client.pending)
            client.encode_model({"w": np.arange(100, dtype=np.float32)}, number)
        older = index.read_bytes() if number == 1 else older
    newest = max((tmp_path / "s" / "segments").iterdir())
    index.write_bytes(older)
    with pytest.raises(CorruptStoreError, match="is older than the segments"):
        fedplug.open_store(url)
    assert note.read(newest) is not None
