"""Files and folders that appear whole or not at all, and files that are on the disk when a block ends."""

from __future__ import annotations

import functools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fedplug.errors import ArgumentError, StoreError
from fedplug.stores import system

__all__ = ["whole_file", "whole_folder", "write_whole", "written_file"]

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
    with _partial(path, make, Path.unlink) as (partial, descriptor, held):
        assert descriptor is not None, "a file is open"
        if replaced is not None:
            system.keep_permissions(descriptor, replaced)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        if not system.CAN_MOVE_OPEN:
            held.close()
        system.replace(partial, path)
        system.sync_folder(path.parent)


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
    with _partial(path, _new_folder, shutil.rmtree) as (partial, _, _):
        yield partial
        system.sync_folder(partial)
        partial.rename(path)
        system.sync_folder(path.parent)


@contextmanager
def written_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file, and waits at the end until its contents are on the disk."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


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
    path: Path, make: Callable[[Path], int | None], remove: Callable[[Path], object]
) -> Iterator[tuple[Path, int | None, ExitStack]]:
    """Makes a file or a folder beside ``path`` with a name of its own, and removes it unless it was renamed.

    Its lock shows that its maker lives: without the lock, a later call for ``path`` removes it. The third
    value closes the descriptor before the end of the block.
    """
    begin = f".{os.fsdecode(os.fsencode(path.name)[:_LONGEST])}."
    _clear(path.parent, begin)
    while True:
        partial = path.with_name(f"{begin}{secrets.token_hex(8)}.partial")
        with ExitStack() as held:
            descriptor = make(partial)
            if descriptor is not None:
                held.callback(os.close, descriptor)
                if not _is_mine(descriptor, partial):
                    continue  # a call in another thread or process took it for one that a killed process left
            try:
                yield partial, descriptor, held
            finally:
                held.close()
                with suppress(OSError):  # it was renamed, or the next call removes it
                    remove(partial)
            return


def _is_mine(descriptor: int, partial: Path) -> bool:
    """Takes the lock of a new file. Returns False if another call is removing the file."""
    try:
        return system.try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), partial.stat())
    except FileNotFoundError:
        return False
    except OSError:  # without locks, nothing is cleared
        return True


def _clear(folder: Path, begin: str) -> None:
    """Removes the partial results of killed processes. Results that cannot be removed do no harm."""
    left = re.compile(re.escape(begin) + r"[0-9a-f]{16}\.partial")
    with suppress(OSError):
        for name in filter(left.fullmatch, os.listdir(folder)):
            with suppress(OSError), system.abandoned(folder / name) as is_left:
                if is_left:
                    _remove(folder / name)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _new_file(path: Path, mode: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)


def _new_folder(path: Path) -> int | None:
    path.mkdir()
    return system.open_folder(path)
