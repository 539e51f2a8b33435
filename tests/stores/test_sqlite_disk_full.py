"""A disk that is full, or refuses to write, costs the round that was being committed and nothing else."""

import errno
import os
import subprocess
import sys

import pytest

from fedplug.errors import StoreError
from fedplug.stores import segment
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "s") as opened:
        yield opened


def segments(tmp_path):
    return sorted((tmp_path / "s" / "segments").iterdir())


class FullDisk:
    """A file on a disk with room for some bytes."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def write(self, content):
        self._room -= len(content)
        if self._room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(content)


@pytest.mark.parametrize("room", [0, 64, 500, 1200])
def test_a_full_disk_leaves_the_previous_round_and_a_usable_store(tmp_path, store, monkeypatch, room):
    process = store.open_process("p", {})
    process.commit(0, **round_of(0, ["a", "b"]))
    before = segments(tmp_path)
    append = segment._append
    with monkeypatch.context() as patch:
        patch.setattr(segment, "_append", lambda file, *rest: append(FullDisk(file, room), *rest))
        with pytest.raises(
            StoreError, match=r"round 1 .* not committed: .*No space left.*; round 0 is intact"
        ) as caught:
            process.commit(1, **round_of(1, ["a", "b"]))
    assert "\n" not in str(caught.value)
    assert segments(tmp_path) == before
    assert process.last_round == 0
    assert process.read_clients(["a"])["a"]["w"][0] == 0
    process.commit(1, **round_of(1, ["a", "b"]))
    assert process.read_server()["w"][0] == 1


@pytest.mark.parametrize("failing", [1, 2], ids=["file", "folder"])
def test_a_segment_that_cannot_be_confirmed_is_not_committed(tmp_path, store, monkeypatch, failing):
    process = store.open_process("p", {})
    process.commit(0, **round_of(0, ["a"]))
    before, calls, fsync = segments(tmp_path), [], os.fsync

    def broken(descriptor):
        calls.append(descriptor)
        if len(calls) == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(StoreError, match="Input/output error"):
            process.commit(1, **round_of(1, ["a"]))
    assert segments(tmp_path) == before
    assert process.last_round == 0


def test_a_round_that_cannot_be_collected_is_committed_all_the_same(tmp_path, store, monkeypatch):
    process = store.open_process("p", {})
    process.commit(0, **round_of(0, ["a", "b", "c", "d"]))
    with monkeypatch.context() as patch:
        patch.setattr(
            store._collector,
            "_move",
            lambda entries: store._segments.read(entries[0].extent._replace(segment=99), ""),
        )
        process.commit(1, **round_of(1, ["b", "c", "d"]))
    assert process.last_round == 1
    assert len(segments(tmp_path)) == 2
    process.verify()
    store.close()
    with SqliteStore(tmp_path / "s") as again:  # makes up for it
        again.open_process("p", {}).verify()
    assert [path.name for path in segments(tmp_path)] == ["0000000002.segment", "0000000003.segment"]


@pytest.mark.parametrize("written_last", ["put_process", "put_round"])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_round_that_the_index_refuses_leaves_the_previous_one(
    tmp_path, store, monkeypatch, written_last, reopened
):
    process = store.open_process("p", {})
    process.commit(0, **round_of(0, ["a", "b"]))

    def refuse(row):
        raise StoreError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(store._index, written_last, refuse)
        with pytest.raises(StoreError, match=r"round 1 .* not committed: .*; round 0 is intact"):
            process.commit(1, **round_of(1, ["a", "c"]))
    if reopened:  # nor is it committed then
        store.close()
        store = SqliteStore(tmp_path / "s")
        process = store.open_process("p")
    assert (process.last_round, process.client_ids()) == (0, ["a", "b"])
    assert process.read_clients(["a"])["a"]["w"][0] == 0
    process.commit(1, **round_of(1, ["a"]))
    assert process.read_clients(["a"])["a"]["w"][0] == 1
    store.close()


LIMITED = """
import resource, sys
import numpy as np
from fedplug.errors import StoreError
from fedplug.stores.sqlite import SqliteStore

folder, limit = sys.argv[1], int(sys.argv[2])
with SqliteStore(folder) as store:
    process = store.open_process("p", {})
    process.commit(0, client_states={"a": {"w": np.zeros(9)}}, server_state={})
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    clients = {f"client {i:0500d}": {"w": np.ones(9)} for i in range(2000)}
    try:
        process.commit(1, client_states=clients, server_state={})
    except StoreError as error:
        print(error)
    assert process.last_round == 0, process.last_round
    assert process.client_ids() == ["a"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    process.commit(1, client_states=clients, server_state={})
    process.verify()
    print(process.last_round)
"""


# 2,000 small clients with long names take 0.4 MB of segment and more than 1 MB of index.
@pytest.mark.parametrize(("limit", "file"), [(100_000, "segment"), (470_000, "index")])
def test_the_systems_own_limit_on_file_sizes_is_met_by_segment_and_index(tmp_path, limit, file):
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "s"), str(limit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    error, last_round = result.stdout.splitlines()
    assert "round 1 of process 'p' was not committed" in error
    assert "round 0 is intact" in error
    assert file in error.partition("not committed:")[2]
    assert last_round == "1"
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.verify()
        assert len(process.client_ids()) == 2001
