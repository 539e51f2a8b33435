"""A short lock between the user of a store on disk and processes that copy it meanwhile.

The index decides who owns the store: it stays locked from opening to closing. This lock is held only while
files change that a copy must see together: the index and the list of segments.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from fedplug.errors import StoreError
from fedplug.stores import system

__all__ = ["LOCK_FILE", "FolderLock"]

LOCK_FILE = "lock"


class FolderLock:
    """A lock held within a ``with`` block. The system releases it when the process ends."""

    def __init__(self, folder: Path) -> None:
        """Opens the lock file, and creates it if there is none.

        Raises:
            StoreError: The file cannot be opened.
        """
        try:
            self._file = (folder / LOCK_FILE).open("ab")
        except OSError as error:
            raise StoreError(f"{folder} cannot be used as a store: {error.strerror}") from error

    def require_sync(self) -> None:
        """Checks that the file system can wait until files and folders are on the disk.

        Raises:
            StoreError: It cannot.
        """
        folder = Path(self._file.name).parent
        try:
            os.fsync(self._file.fileno())
            for place in (folder.parent, folder):
                system.sync_folder(place)
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be used as a store: fsync fails: {error.strerror}; a crash could lose "
                "rounds, so use another file system, such as a local disk"
            ) from error

    def close(self) -> None:
        """Closes the file. Closing twice is allowed."""
        self._file.close()

    def __enter__(self) -> None:
        try:
            system.lock(self._file.fileno())
        except OSError as error:
            raise StoreError(
                f"{self._file.name} cannot be locked: {error.strerror}; a store needs a file system that has "
                "locks, such as a local disk"
            ) from error
        except ValueError as error:
            raise StoreError(f"the store of {self._file.name} is closed") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        system.unlock(self._file.fileno())
