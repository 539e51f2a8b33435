"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedplug.errors import ArgumentError
from fedplug.stores.segment import sync_folder

__all__ = ["whole_file", "whole_folder", "written_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file that replaces ``path`` once it is complete on the disk, and never after an error.

    A link stays, and the file to which it points is replaced. The new file has the owner and the permissions
    of the old one.

    Raises:
        ArgumentError: There is something else than a file at ``path``, such as a folder, a FIFO or a device.
        OSError: The file cannot be written.
    """
    path, replaced = _replaced(path)
    partial = _partial(path)
    try:
        with written_file(partial, 0o666 if replaced is None else 0o600) as file:
            if replaced is not None:
                with suppress(PermissionError):  # only root may give a file away
                    os.fchown(file.fileno(), replaced.st_uid, replaced.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(replaced.st_mode))
            yield file
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Makes a folder that is renamed to ``path`` once it is complete; after an error it is removed.

    Raises:
        ArgumentError: There is something at ``path``.
        OSError: The folder cannot be written.
    """
    if os.path.lexists(path):
        raise ArgumentError(f"{path} exists, and a checkpoint of several files needs a new folder")
    partial = _partial(path)
    try:
        partial.mkdir()
        yield partial
        sync_folder(partial)
        partial.rename(path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def written_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Opens a new file of a mode, and waits at the end until its contents are on the disk."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _replaced(path: Path) -> tuple[Path, os.stat_result | None]:
    """Follows links; returns the place of the file, and the status of the file that is there, if any."""
    place = Path(os.path.realpath(path))
    place.parent.stat()  # an error names the missing folder
    try:
        status = path.stat()
    except FileNotFoundError:
        return place, None
    if not stat.S_ISREG(status.st_mode) or not place.exists():  # /dev/fd has links to deleted files
        raise ArgumentError(f"{path} is no regular file, and an output is written whole; name a file")
    return place, status


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")
