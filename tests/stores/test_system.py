"""Stores on POSIX systems and on Windows, and on file systems without fsync."""

import contextlib
import errno
import os
import time
from pathlib import Path

import pytest
from windows import as_on_windows

from fedplug.errors import StoreError
from fedplug.stores import system
from fedplug.stores.copying import copy_store
from fedplug.stores.files import whole_file, whole_folder
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of


@pytest.fixture(params=["POSIX", "Windows"])
def either(request):
    with as_on_windows() if request.param == "Windows" else contextlib.nullcontext():
        yield request.param


@pytest.fixture
def windows():
    with as_on_windows():
        yield


def test_one_opener_of_a_file_has_its_lock(tmp_path, either):
    with (tmp_path / "lock").open("ab") as first, (tmp_path / "lock").open("ab") as second:
        assert system.try_lock(first.fileno())
        assert not system.try_lock(second.fileno())
        first.close()
        assert system.try_lock(second.fileno())
        with (tmp_path / "lock").open("ab") as third:
            assert not system.try_lock(third.fileno())
        assert second.tell() == 0


def test_a_file_and_a_folder_appear_whole(tmp_path, either):
    for text in (b"old", b"new"):
        with whole_file(tmp_path / "file") as file:
            file.write(text)
    with whole_folder(tmp_path / "folder") as folder:
        (folder / "part").write_bytes(b"part")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "file") as file:
        file.write(bytes(1 // 0))
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "half") as folder:
        (folder / "part").write_bytes(bytes(1 // 0))
    assert (tmp_path / "file").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_store_works_and_is_copied_while_it_is_open(tmp_path, either):
    with SqliteStore(tmp_path / "s", keep_rounds=2) as store:
        process = store.open_process("p", {})
        for number in range(4):
            process.commit(number, **round_of(number, ["a", "b"]))
        copy_store(tmp_path / "s", tmp_path / "copy")
        process.rewind(2)
    for folder, number in (("s", 2), ("copy", 3)):
        with SqliteStore(tmp_path / folder) as store:
            assert store.open_process("p").last_round == number
        SqliteStore(tmp_path / folder, looking=True).close()


def test_the_commands_on_stores_and_differences_work_on_windows(tmp_path, python):
    tests = Path(__file__).parents[1]
    files = [tests / "cli/test_store.py", f"{tests / 'differences/test_files.py'}::test_the_commands"]
    options = ["-q", "-p", "windows", "-p", "no:cacheprovider", "--basetemp", tmp_path / "base"]
    done = python("-m", "pytest", *options, *files, PYTHONPATH=str(Path(__file__).parent))
    assert done.returncode == 0, done.stdout


def test_on_windows_a_closed_partial_file_is_removed_after_a_minute(tmp_path, windows):
    left, fresh = (tmp_path / f".out.{digit * 16}.partial" for digit in "01")
    for path in (left, fresh):
        path.touch()
    os.utime(left, (time.time() - 100,) * 2)
    with whole_file(tmp_path / "out"):
        pass
    assert sorted(os.listdir(tmp_path)) == [fresh.name, "out"]


def test_on_windows_a_file_is_replaced_when_its_reader_has_closed_it(tmp_path, windows, monkeypatch):
    (tmp_path / "out").write_bytes(b"old")
    reader = (tmp_path / "out").open("rb")
    monkeypatch.setattr(time, "sleep", lambda seconds: reader.close())
    with whole_file(tmp_path / "out") as file:
        file.write(b"new")
    assert (tmp_path / "out").read_bytes() == b"new"


def test_a_file_that_stays_open_on_windows_is_an_error_and_nothing_is_left(tmp_path, windows, monkeypatch):
    (tmp_path / "out").write_bytes(b"old")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    in_use = pytest.raises(PermissionError, match="used by another process")
    with (tmp_path / "out").open("rb"), in_use, whole_file(tmp_path / "out") as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_system_without_fsync_is_named_when_a_store_is_opened(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StoreError, match=r"fsync fails: Operation not supported; .* disk"):
        SqliteStore(tmp_path / "s")
