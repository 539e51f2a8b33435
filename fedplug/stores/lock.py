"""The short lock between the user of a store on disk and those who copy it meanwhile.

Who the store belongs to is decided elsewhere: by the index, which stays locked from opening to closing. This
lock is held only while files change that a copy must see in one piece: the index, and the list of segments.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import TracebackType

from fedplug.errors import StoreError

__all__ = ["LOCK_FILE", "FolderLock"]

LOCK_FILE = "lock"


class FolderLock:
    """Held within a ``with``; the system lets go of it when the process that holds it ends."""

    def __init__(self, folder: Path) -> None:
        """Opens the file, and makes it where there is none.

        Raises:
            StoreError: It cannot be opened.
        """
        try:
            self._file = (folder / LOCK_FILE).open("ab")
        except OSError as error:
            raise StoreError(f"{folder} cannot be used as a store: {error.strerror}") from error

    def close(self) -> None:
        """Closes the file; legal twice."""
        self._file.close()

    def __enter__(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            raise StoreError(f"{self._file.name} cannot be locked: {error.strerror}") from error
        except ValueError as error:
            raise StoreError(f"the store of {self._file.name} is closed") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Said, not left to closing: a child that was forked meanwhile has the file open, too.
        fcntl.flock(self._file, fcntl.LOCK_UN)
