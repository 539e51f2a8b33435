"""Files on POSIX systems: locks, durable names, and results that appear whole or not at all.

Code of stores that another system needs in another form belongs in this module.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedplug.errors import ArgumentError, StoreError

__all__ = [
    "lock",
    "sync_folder",
    "try_lock",
    "unlock",
    "whole_file",
    "whole_folder",
    "write_whole",
    "written_file",
]

_LONGEST = 200
"""The most bytes of a result's name in the name of its partial file. Systems allow 255 in all."""


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file that replaces ``path`` once it is complete on the disk, and never after an error.

    Any number of threads, processes and machines may write to one path. Each result replaces the one before.
    A link stays, and the file to which it points is replaced. The new file has the owner and the permissions
    of the old one.

    Raises:
        ArgumentError: There is something else than a file at ``path``, such as a folder, a FIFO or a device.
        OSError: The file cannot be written.
    """
    path, replaced = _replaced(path)
    make = functools.partial(_new_file, mode=0o666 if replaced is None else 0o600)
    with _partial(path, make, Path.unlink) as (partial, descriptor):
        if replaced is not None:
            with suppress(PermissionError):  # only root may give a file away
                os.fchown(descriptor, replaced.st_uid, replaced.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(replaced.st_mode))
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        partial.replace(path)
        sync_folder(path.parent)


def write_whole(path: Path, text: str) -> None:
    """Replaces the text of a file atomically: after a full disk or a crash it has the old text.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        with whole_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Makes a folder that is renamed to ``path`` once it is complete; after an error it is removed.

    Raises:
        ArgumentError: There is something at ``path``.
        OSError: The folder cannot be written.
    """
    path = path.absolute()
    if os.path.lexists(path):
        raise ArgumentError(f"{path} already exists; name a new folder")
    with _partial(path, _new_folder, shutil.rmtree) as (partial, _):
        yield partial
        sync_folder(partial)
        partial.rename(path)
        sync_folder(path.parent)


@contextmanager
def written_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file, and waits at the end until its contents are on the disk."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    descriptor = _open_folder(folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Waits for the lock of an open file. `unlock`, or the end of all processes that have it open, frees it.

    Raises:
        OSError: The file system has no locks.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def try_lock(descriptor: int) -> bool:
    """Takes the lock like `lock`, and returns whether it was free.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Releases the lock. Closing is not enough, because a child forked meanwhile has the file open, too."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def _replaced(path: Path) -> tuple[Path, os.stat_result | None]:
    """Follows links. Returns the place of the file, and the status of the file that is there, if any."""
    place = Path(os.path.realpath(path))
    place.parent.stat()  # an error names the missing folder
    try:
        status = path.stat()
    except FileNotFoundError:
        return place, None
    if not stat.S_ISREG(status.st_mode) or not place.exists():  # /dev/fd has links to deleted files
        raise ArgumentError(f"{path} is no regular file, and an output is written whole; name a file")
    return place, status


@contextmanager
def _partial(
    path: Path, make: Callable[[Path], int], remove: Callable[[Path], object]
) -> Iterator[tuple[Path, int]]:
    """Makes a file or a folder beside ``path`` with a name of its own, and removes it unless it was renamed.

    Its lock shows that its maker lives: without the lock, a later call for ``path`` removes it.
    """
    begin = f".{os.fsdecode(os.fsencode(path.name)[:_LONGEST])}."
    _clear(path.parent, begin)
    while True:
        partial = path.with_name(f"{begin}{secrets.token_hex(8)}.partial")
        descriptor = make(partial)
        try:
            if not _is_mine(descriptor, partial):
                continue  # a call in another thread or process took it for one that a killed process left
            try:
                yield partial, descriptor
            finally:
                with suppress(OSError):  # it was renamed, or the next call removes it
                    remove(partial)
            return
        finally:
            os.close(descriptor)


def _is_mine(descriptor: int, partial: Path) -> bool:
    """Takes the lock of a new file. Returns False if another call is removing the file."""
    try:
        return try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), partial.stat())
    except FileNotFoundError:
        return False
    except OSError:  # without locks, nothing is cleared
        return True


def _clear(folder: Path, begin: str) -> None:
    """Removes the partial results of killed processes. Results that cannot be removed do no harm."""
    left = re.compile(re.escape(begin) + r"[0-9a-f]{16}\.partial")
    with suppress(OSError):
        for name in filter(left.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                try:
                    if try_lock(descriptor):
                        _remove(folder / name)
                finally:
                    os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _new_file(path: Path, mode: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)


def _new_folder(path: Path) -> int:
    path.mkdir()
    return _open_folder(path)


def _open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
