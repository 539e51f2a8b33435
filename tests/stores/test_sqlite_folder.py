"""The folder of a store: valid contents, locking, forks, and disk space."""

import os
import pathlib
import sqlite3

import pytest

from fedplug.errors import CorruptStoreError, StoreError, StoreInUseError, StoreMismatchError
from fedplug.stores import system
from fedplug.stores.sqlite import FILE, SqliteStore
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
    assert files == {FILE, "lock"}


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        SqliteStore(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be used as a store"):
        SqliteStore(tmp_path / "file" / "below")


def test_a_store_whose_maker_was_killed_before_its_file_was_there_is_made(tmp_path):
    for name in ("lock", "lock-journal"):
        (tmp_path / name).touch()
    with SqliteStore(tmp_path) as store:
        assert store.processes() == []


def test_a_foreign_folder_is_refused_and_not_changed(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match="not a fedplug store"):
        SqliteStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_foreign_sqlite_file_is_refused_and_not_changed(tmp_path):
    file = tmp_path / FILE
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE songs (title TEXT)")
    other.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match="not the file of a fedplug store"):
        SqliteStore(tmp_path)
    assert file.read_bytes() == before


@pytest.mark.parametrize("version", [0, 2])
def test_a_store_of_another_format_names_both_versions(folder, version):
    database = sqlite3.connect(folder / FILE)
    database.execute(f"PRAGMA user_version = {version}")
    database.commit()
    database.close()
    with pytest.raises(StoreError, match=f"format version {version}, and this release .* reads version 1;"):
        SqliteStore(folder)


def test_the_folder_of_a_new_store_is_on_the_disk_before_anything_is_kept(tmp_path, monkeypatch):
    synced, sync = [], system.sync_folder
    monkeypatch.setattr(system, "sync_folder", lambda path: (synced.append(path), sync(path)))
    SqliteStore(tmp_path / "s").close()
    assert synced == [tmp_path, tmp_path / "s"]


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
        store._database.translated(),
    ):
        raise sqlite3.OperationalError(message)  # as in Python 3.10, it has no sqlite_errorname
    assert type(caught.value) is kind


@pytest.mark.parametrize("child", ["pass", "del store, process", "store.close()", "commit(1)"])
def test_a_forked_child_takes_nothing_from_the_store_of_its_parent(tmp_path, child, python):
    done = python("-c", PROGRAM, tmp_path / "s", child)
    assert (done.returncode, done.stderr) == (-9, "")
    refusal = "was opened before a fork(), by the parent of this process; use it only there"
    assert (refusal in done.stdout) == (child == "commit(1)")
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p")
        assert process.last_round == 1
        process.verify()
