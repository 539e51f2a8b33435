"""The file operations that differ between POSIX systems and Windows.

On Windows, an open file can neither be replaced nor removed, a folder cannot be opened, and names are on the
disk without an fsync of their folder. `fedplug.registry.forking` says whether processes can be forked.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "CAN_MOVE_OPEN",
    "abandoned",
    "call_at_fork",
    "keep_permissions",
    "open_folder",
    "replace",
    "sync_folder",
    "try_lock",
]

CAN_MOVE_OPEN = sys.platform != "win32"
"""Whether an open file can be renamed."""

if sys.platform == "win32":
    import msvcrt

    _AT = 1 << 40
    """Position of the locked byte: other processes cannot read it."""
    _GRACE = 60
    """Seconds before a closed file counts as abandoned: its writer closes it before it renames it."""

    def try_lock(descriptor: int) -> bool:
        """Takes the lock of an open file until it is closed, and returns whether it was free."""
        try:
            _locking(descriptor, msvcrt.LK_NBLCK)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EDEADLK):
                raise
            return False
        return True

    def _locking(descriptor: int, how: int) -> None:
        """Locks one byte beyond all content. The file's position stays."""
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _AT, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, how, 1)
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)

    def open_folder(folder: Path) -> int | None:
        """Returns None: a folder cannot be opened."""
        return None

    def sync_folder(folder: Path) -> None:
        """Does nothing: NTFS writes names before the next fsync of a file ends."""

    def replace(path: Path, target: Path) -> None:
        """Renames a closed file. Waits for a second while another program has the target open."""
        for wait in (0.01, 0.05, 0.2, 0.8):
            try:
                return os.replace(path, target)
            except PermissionError:
                time.sleep(wait)
        return os.replace(path, target)

    def keep_permissions(descriptor: int, before: os.stat_result) -> None:
        """Does nothing: the permissions of a new file are those of its folder."""

    @contextmanager
    def abandoned(path: Path) -> Iterator[bool]:
        """Yields whether a partial result is a file that has not been changed for a minute.

        An open file cannot be removed. A folder stays, because its writer may just have no file open.
        """
        status = path.stat()
        yield stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > _GRACE

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Takes the lock of an open file until it is closed, and returns whether it was free.

        Raises:
            OSError: The file system has no locks.
        """
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def open_folder(folder: Path) -> int | None:
        """Opens a folder to lock it, or to wait until its names are on the disk."""
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def sync_folder(folder: Path) -> None:
        """Waits until the names in a folder are on the disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(path: Path, target: Path) -> None:
        """Renames a file, open or not, to the name of another one, which disappears."""
        os.replace(path, target)

    def keep_permissions(descriptor: int, before: os.stat_result) -> None:
        """Gives a new file the owner and the permissions of the old one, as far as this user may."""
        with suppress(PermissionError):  # only root may give a file away
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))

    @contextmanager
    def abandoned(path: Path) -> Iterator[bool]:
        """Yields whether the lock of a partial result is free, and holds it: then its maker has ended."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            yield try_lock(descriptor)
        finally:
            os.close(descriptor)


def call_at_fork(**actions: Callable[[], object]) -> None:
    """Registers actions like `os.register_at_fork`; without fork() there is nothing to register."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**actions)
