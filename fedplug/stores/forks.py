"""SQLite connections and fork(): a child must neither use nor close its parent's connection.

Closing it deletes the log that the parent continues to write. Everything the parent commits afterwards is
then lost when the parent ends.
"""

from __future__ import annotations

import ctypes
import sqlite3
import threading
import weakref
from pathlib import Path
from typing import Any, NoReturn

from fedplug.stores.system import call_at_fork
from fedplug.stores.turns import Turn

__all__ = ["Connection", "lock_for_forks"]

_open: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection(sqlite3.Connection):
    """A connection that works, and is closed, only in the process that opened it.

    Attributes:
        turn: The lock for threads that share the connection.
    """

    def __init__(self, path: str | Path, *, where: str | Path | None = None, **options: Any) -> None:
        """Opens a file like `sqlite3.connect`. Errors name ``where``, the path if None."""
        super().__init__(path, **options)
        self.turn = Turn(str(path if where is None else where))
        _open.add(self)

    def close(self) -> None:
        """Closes the connection. Does nothing in a forked child."""
        if not self.turn.is_of_parent():
            super().close()
            _open.discard(self)

    def refuse(self, *_: object) -> NoReturn:
        """Takes the place of `execute` in a forked child.

        Raises:
            StoreError: Always.
        """
        self.turn.require_own_process()
        raise AssertionError("only a forked child calls this")


def lock_for_forks() -> threading._RLock:
    """Returns a lock that forks wait for, so that no child begins with the lock of another thread."""
    lock = threading.RLock()
    call_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


def _keep_in_child() -> None:
    """Keeps the parent's connections alive in the child, because Python closes unreferenced ones."""
    for connection in _open:
        vars(connection)["execute"] = connection.refuse
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


call_at_fork(after_in_child=_keep_in_child)
