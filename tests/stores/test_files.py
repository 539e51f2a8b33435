"""Results appear whole or not at all, however many threads, processes and containers write to one path."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedplug.errors import ArgumentError
from fedplug.stores import system
from fedplug.stores.files import whole_file, whole_folder

KILLED = """
import os, pathlib, sys
from fedplug.stores import files
with getattr(files, sys.argv[1])(pathlib.Path(sys.argv[2])) as made:
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(params=[whole_file, whole_folder])
def whole(request):
    return request.param


def write(whole, made, content):
    if whole is whole_file:
        made.write(content)
        made.flush()
    else:
        (made / "part").write_bytes(content)


def fail_to_write(whole, path):
    with whole(path) as made:
        write(whole, made, b"half")
        raise ZeroDivisionError


def content_of(path):
    return (path / "part" if path.is_dir() else path).read_bytes()


def test_a_result_appears_when_it_is_complete_and_nothing_is_left_beside_it(tmp_path, whole):
    with whole(tmp_path / "out") as made:
        write(whole, made, b"all")
        assert not (tmp_path / "out").exists()
    assert os.listdir(tmp_path) == ["out"]
    assert content_of(tmp_path / "out") == b"all"


def test_an_error_leaves_what_was_there(tmp_path, whole):
    if whole is whole_file:
        (tmp_path / "out").write_bytes(b"before")
    before = os.listdir(tmp_path)
    with pytest.raises(ZeroDivisionError):
        fail_to_write(whole, tmp_path / "out")
    assert os.listdir(tmp_path) == before


def test_a_call_never_takes_or_removes_what_another_is_writing(tmp_path, monkeypatch):
    """Also if both have one process id, as two containers on a volume may."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    with whole_file(tmp_path / "out") as first:
        first.write(b"first")
        with pytest.raises(ZeroDivisionError):
            fail_to_write(whole_file, tmp_path / "out")
        with whole_file(tmp_path / "out") as second:
            second.write(b"second")
        assert content_of(tmp_path / "out") == b"second"
    assert content_of(tmp_path / "out") == b"first"
    assert os.listdir(tmp_path) == ["out"]


def test_of_folders_written_at_the_same_time_the_first_complete_one_stays(tmp_path):
    def write_slowly():
        with whole_folder(tmp_path / "out") as slow, whole_folder(tmp_path / "out") as fast:
            write(whole_folder, slow, b"slow")
            write(whole_folder, fast, b"fast")

    with pytest.raises(OSError, match="not empty"):
        write_slowly()
    assert content_of(tmp_path / "out") == b"fast"
    assert os.listdir(tmp_path) == ["out"]
    with pytest.raises(ArgumentError, match="already exists"), whole_folder(tmp_path / "out"):
        pass


def test_many_threads_leave_one_of_their_results(tmp_path):
    begin = threading.Barrier(8)

    def write_it(number):
        begin.wait()
        for _ in range(10):
            write_at(tmp_path / "out", bytes([number]) * 10_000)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write_it, range(8)))
    content = (tmp_path / "out").read_bytes()
    assert content == content[:1] * 10_000
    assert os.listdir(tmp_path) == ["out"]


def test_the_next_call_clears_what_killed_processes_left_and_no_other_file(tmp_path, whole, python):
    kept = [".other.0123456789abcdef.partial", ".out.partial", ".out.mine.partial"]
    for name in kept:
        (tmp_path / name).touch()
    for _ in range(2):
        assert python("-c", KILLED, whole.__name__, tmp_path / "out").returncode == -9
    assert len(os.listdir(tmp_path)) == len(kept) + 1
    with whole(tmp_path / "out") as made:
        write(whole, made, b"all")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "out"])


def test_a_result_goes_where_its_path_was_when_it_was_begun(tmp_path, monkeypatch, whole):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with whole(type(tmp_path)("out")) as made:
        write(whole, made, b"all")
        monkeypatch.chdir("other")
    assert content_of(tmp_path / "out") == b"all"
    assert os.listdir(tmp_path / "other") == []


def test_the_longest_name_of_a_file_can_be_written(tmp_path, whole):
    with whole(tmp_path / ("ö" * 127)) as made:
        write(whole, made, b"all")
    assert content_of(tmp_path / ("ö" * 127)) == b"all"


def test_after_a_power_cut_there_is_the_file_before_or_the_new_one(tmp_path, monkeypatch):
    """The contents are on the disk before the file has its name, and the name before the call ends."""
    calls, fsync, replace = [], os.fsync, system.replace

    def synced(descriptor):
        status = os.fstat(descriptor)
        calls.append("folder" if stat.S_ISDIR(status.st_mode) else f"file of {status.st_size} bytes")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(system, "replace", lambda *paths: (calls.append("name"), replace(*paths)))
    write_at(tmp_path / "out", b"after" * 2000)
    assert calls == ["file of 10000 bytes", "name", "folder"]


def write_at(path, text=b"new"):
    with whole_file(path) as file:
        file.write(text)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [b"old", None])
def test_a_link_stays_and_its_target_is_written(tmp_path, before):
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk" / "target", tmp_path / "link"
    if before is not None:
        target.write_bytes(before)
    (tmp_path / "second").symlink_to("disk/target")
    link.symlink_to("second")
    write_at(link)
    assert link.is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert target.read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["target"]  # its partial file is beside it


@pytest.mark.parametrize("permissions", [0o600, 0o440, 0o664])
def test_the_permissions_stay_also_while_the_file_is_incomplete(tmp_path, permissions):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(permissions)
    with whole_file(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == permissions
        file.write(b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", permissions)


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    write_at(tmp_path / "whole")
    (tmp_path / "other").touch()
    assert mode(tmp_path / "whole") == mode(tmp_path / "other")


def test_only_a_file_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for name in ("folder", "fifo", "link"):
        with pytest.raises(ArgumentError, match=f"{name} is no regular file"):
            write_at(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "fifo", "link"}
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_a_device_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "device"
    path.touch()
    device = os.stat_result((stat.S_IFCHR | 0o666, *path.stat()[1:]))
    monkeypatch.setattr(type(path), "stat", lambda self, **options: device)
    with pytest.raises(ArgumentError, match="device is no regular file"):
        write_at(path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_at(tmp_path / "missing" / "file")
    assert caught.value.filename == str(tmp_path / "missing")


def test_a_link_in_the_place_of_a_folder_is_refused_before_the_work(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(ArgumentError, match="exists"), whole_folder(tmp_path / "link"):
        raise AssertionError("nothing is written")
