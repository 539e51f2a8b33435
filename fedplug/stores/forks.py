"""SQLite's connections and fork(): a child must neither use the connection of its parent nor close it.

Closing one deletes the log that the parent goes on writing to, and what the parent commits from then on is
lost when it ends.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import weakref
from pathlib import Path
from typing import Any

from fedplug.errors import StoreError

__all__ = ["Connection"]

_open: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection(sqlite3.Connection):
    """A connection that works and ends in the process that made it, and in no other."""

    def __init__(self, path: Any, **options: Any) -> None:
        super().__init__(path, **options)
        self._path = path
        self._process = os.getpid()
        _open.add(self)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As SQLite's.

        Raises:
            StoreError: In a forked child.
        """
        if self._is_of_parent():
            raise StoreError(
                f"{self._path} was opened before a fork(), by the parent of this process; use it there only, "
                "or start processes with the 'spawn' method"
            )
        return super().execute(sql, parameters)

    def close(self) -> None:
        """As SQLite's; in a forked child it does nothing."""
        if not self._is_of_parent():
            super().close()
            _open.discard(self)

    @staticmethod
    def opened_here(path: Path) -> Connection | None:
        """The connection that this process has to a file, if it has one."""
        same = os.path.realpath(path)
        mine = (connection for connection in _open if not connection._is_of_parent())
        return next((each for each in mine if os.path.realpath(each._path) == same), None)

    def _is_of_parent(self) -> bool:
        return os.getpid() != self._process


def _keep_in_child() -> None:
    """Lets connections of the parent stay for ever: Python closes those that nobody holds any more."""
    for connection in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_keep_in_child)
