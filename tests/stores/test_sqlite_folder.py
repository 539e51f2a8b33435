"""The folder of a store: valid contents, locking, forks, and disk space."""

import os
import pathlib
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from fedplug.errors import CorruptStoreError, StoreError, StoreInUseError, StoreMismatchError
from fedplug.stores import system
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


@pytest.fixture
def folder(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {"fraction": 0.01}).commit(0, **round_of(0, ["a", "b"]))
    return tmp_path / "s"


def test_the_state_of_another_model_is_refused_naming_the_store(folder):
    with SqliteStore(folder) as store, pytest.raises(StoreMismatchError, match=f"{folder} holds process 'p'"):
        store.open_process("p", {"fraction": 0.1})


def test_no_id_is_part_of_a_file_name(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("../../escape", {})
        process.commit(0, **round_of(0, ["../up", "/etc/passwd", "x" * 9999, "a\0b"]))
    assert {path.name for path in tmp_path.iterdir()} == {"s"}
    files = {str(path.relative_to(tmp_path / "s")) for path in (tmp_path / "s").rglob("*") if path.is_file()}
    assert files == {"index.sqlite3", "lock", "segments.list", "segments/0000000001.segment"}


def test_a_store_is_not_opened_twice_by_two_processes(folder):
    code = "import sys; from fedplug.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    with SqliteStore(folder):
        second = subprocess.run(
            [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
        )
    assert second.returncode == 1
    assert "StoreInUseError" in second.stderr
    assert "open elsewhere" in second.stderr


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        SqliteStore(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be used as a store"):
        SqliteStore(tmp_path / "file" / "below")


def test_a_foreign_folder_is_refused_and_not_changed(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match="not a fedplug store"):
        SqliteStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_foreign_sqlite_file_is_refused_and_not_changed(tmp_path):
    index = tmp_path / "index.sqlite3"
    other = sqlite3.connect(index)
    other.execute("CREATE TABLE songs (title TEXT)")
    other.close()
    before = index.read_bytes()
    with pytest.raises(StoreError, match="not the index of a fedplug store"):
        SqliteStore(tmp_path)
    assert index.read_bytes() == before


@pytest.mark.parametrize("version", [0, 2])
def test_a_store_of_another_format_names_both_versions(folder, version):
    database = sqlite3.connect(folder / "index.sqlite3")
    database.execute(f"PRAGMA user_version = {version}")
    database.execute("UPDATE generation SET seal = seal + 1")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match=f"format version {version}, and this release .* reads version 1;"):
        SqliteStore(folder)


def test_a_store_that_could_not_be_opened_is_not_in_use(folder):
    (folder / "segments").rename(folder / "aside")
    (folder / "segments").write_text("in the way")
    with pytest.raises(StoreError, match="segments cannot be used") as caught:
        SqliteStore(folder)
    (folder / "segments").unlink()
    (folder / "aside").rename(folder / "segments")
    SqliteStore(folder).close()
    assert caught.value  # its traceback keeps the first try alive until here


def test_the_folder_of_a_new_store_is_on_the_disk_before_anything_is_kept(tmp_path, monkeypatch):
    synced, sync = [], system.sync_folder
    monkeypatch.setattr(system, "sync_folder", lambda path: (synced.append(path), sync(path)))
    SqliteStore(tmp_path / "s").close()
    assert synced == [tmp_path, tmp_path / "s", tmp_path / "s"]


def test_a_folder_without_permission_is_one_clear_error(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    is_root = os.geteuid() == 0
    if is_root:  # who may write everywhere; so be somebody else for a moment
        tmp_path.chmod(0o500)
        os.seteuid(65534)
    try:
        with pytest.raises(StoreError, match="Permission denied"):
            SqliteStore(tmp_path / "locked" / "store")
    finally:
        if is_root:
            os.seteuid(0)


def test_files_that_are_not_the_stores_own_are_never_deleted(folder):
    (folder / "segments" / "notes.txt").write_text("x")
    (folder / "segments" / "1.segment").write_text("x")
    (folder / "segments" / "0000000009.segment").write_text("left by a crash")
    with SqliteStore(folder):
        names = {path.name for path in (folder / "segments").iterdir()}
    assert names == {"notes.txt", "1.segment", "0000000001.segment"}


def test_segments_take_at_most_twice_the_live_bytes(tmp_path):
    random = np.random.default_rng(0)
    sizes = {f"c{i}": int(random.integers(1, 5000)) for i in range(40)}
    expected = {}
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        for number in range(60):
            cohort = random.choice(list(sizes), 5, replace=False)
            states = {client: {"w": np.full(sizes[client], number)} for client in cohort}
            expected |= dict.fromkeys(states, number)
            process.commit(number, client_states=states, server_state={"w": np.full(300, number)})
            files = list((tmp_path / "s" / "segments").iterdir())
            alive = sum(64 + entry.extent.size for entry in store._index.entries("p"))
            notes = sum(row.note for row in store._index.segments())
            assert sum(file.stat().st_size for file in files) <= 2 * alive + notes + 64 * len(files)
        process.verify()
        found = process.read_clients(process.client_ids())
    assert {client: state["w"].tolist() for client, state in found.items()} == {
        client: [number] * sizes[client] for client, number in expected.items()
    }


def test_a_segment_of_which_half_is_alive_is_left_where_it_is(tmp_path):
    """Every byte freed then costs at most one byte copied."""
    clients = ["a", "b", "c", "d", "e"]
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, clients, size=1))  # six blobs, mostly padding
        first = tmp_path / "s/segments/0000000001.segment"
        process.commit(1, **round_of(1, ["a", "b"], size=1))
        assert first.exists()
        process.commit(2, **round_of(2, ["c"], size=1))
        assert not first.exists()


def test_no_file_of_the_store_is_open_after_closing(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {}).commit(0, **round_of(0, ["a"]))
    descriptors = pathlib.Path("/proc/self/fd")
    assert not [fd for fd in descriptors.iterdir() if str(tmp_path) in os.path.realpath(fd)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("database is locked", StoreInUseError),
        ("database or disk is full", StoreError),
        ("disk I/O error", StoreError),
        ("database disk image is malformed", CorruptStoreError),
    ],
)
def test_errors_without_a_name_are_distinguished_by_their_message(folder, message, kind):
    with (
        SqliteStore(folder) as store,
        pytest.raises(
            StoreError, match=message if kind is not StoreInUseError else "open elsewhere"
        ) as caught,
        store._index._translated(),
    ):
        raise sqlite3.OperationalError(message)  # as in Python 3.10, it has no sqlite_errorname
    assert type(caught.value) is kind


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
