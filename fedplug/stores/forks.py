"""SQLite connections and fork(): a child must neither use nor close its parent's connection.

Closing it deletes the log that the parent continues to write. Everything the parent commits afterwards is
then lost when the parent ends.
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
    """A connection that works, and is closed, only in the process that opened it."""

    def __init__(self, path: Any, **options: Any) -> None:
        super().__init__(path, **options)
        self._path = path
        self._process = os.getpid()
        _open.add(self)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Executes a statement like `sqlite3.Connection.execute`.

        Raises:
            StoreError: This process is a forked child of the one that opened the connection.
        """
        if self._is_of_parent():
            raise StoreError(
                f"{self._path} was opened before a fork(), by the parent of this process; use it only there, "
                "or start processes with the 'spawn' method"
            )
        return super().execute(sql, parameters)

    def close(self) -> None:
        """Closes the connection; does nothing in a forked child."""
        if not self._is_of_parent():
            super().close()
            _open.discard(self)

    @staticmethod
    def opened_here(path: Path) -> Connection | None:
        """Returns this process's connection to a file, if there is one."""
        same = os.path.realpath(path)
        mine = (connection for connection in _open if not connection._is_of_parent())
        return next((each for each in mine if os.path.realpath(each._path) == same), None)

    def _is_of_parent(self) -> bool:
        return os.getpid() != self._process


def _keep_in_child() -> None:
    """Keeps the parent's connections alive in the child, because Python closes unreferenced ones."""
    for connection in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_keep_in_child)
