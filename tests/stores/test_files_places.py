"""The place of an output: a link is followed, permissions stay, and nothing but a file is replaced."""

from __future__ import annotations

import os
import stat

import pytest

from fedplug.errors import ArgumentError
from fedplug.stores.files import whole_file, whole_folder


def write(path, text=b"new"):
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
    write(link)
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
    write(tmp_path / "whole")
    (tmp_path / "other").touch()
    assert mode(tmp_path / "whole") == mode(tmp_path / "other")


def test_only_a_file_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for name in ("folder", "fifo", "link"):
        with pytest.raises(ArgumentError, match=f"{name} is no regular file"):
            write(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "fifo", "link"}
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_a_device_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "device"
    path.touch()
    device = os.stat_result((stat.S_IFCHR | 0o666, *path.stat()[1:]))
    monkeypatch.setattr(type(path), "stat", lambda self, **options: device)
    with pytest.raises(ArgumentError, match="device is no regular file"):
        write(path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "missing" / "file")
    assert caught.value.filename == str(tmp_path / "missing")


def test_a_link_in_the_place_of_a_folder_is_refused_before_the_work(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(ArgumentError, match="exists"), whole_folder(tmp_path / "link"):
        raise AssertionError("nothing is written")
