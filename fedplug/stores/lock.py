"""A short lock between the user of a store on disk and processes that copy it meanwhile.

The index decides who owns the store: it stays locked from opening to closing. This lock is held only while
files change that a copy must see together: the index and the list of segments.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from fedplug.errors import StoreError
from fedplug.stores import files

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

    def close(self) -> None:
        """Closes the file. Closing twice is allowed."""
        self._file.close()

    def __enter__(self) -> None:
        try:
            files.lock(self._file.fileno())
        except OSError as error:
            raise StoreError(f"{self._file.name} cannot be locked: {error.strerror}") from error
        except ValueError as error:
            raise StoreError(f"the store of {self._file.name} is closed") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        files.unlock(self._file.fileno())
