"""``sqlite:///path``: a store in a folder, safe against crashes, full disks and damaged files.

A commit is one SQLite transaction. The last ``keep_rounds`` rounds are kept: the transaction that adds a
round removes the states that no kept round needs.

A store's folder has these files::

    state.sqlite3       everything (`fedplug.stores.database`), with SQLite's log beside it while it is in use
    lock                locked from opening to closing
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fedplug.errors import ConfigError, StoreError
from fedplug.stores import rules, system
from fedplug.stores.base import Json, StateStore
from fedplug.stores.database import Database, locked
from fedplug.stores.sqlite_process import SqliteProcess
from fedplug.stores.turns import in_turn, refuse_copies

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["FILE", "SqliteStore", "require_store"]

FILE = "state.sqlite3"
_LOCK = "lock"
_PREFIX = "sqlite:///"
_OPTION = "?keep_rounds="


class SqliteStore(StateStore):
    """The default store on disk."""

    name: ClassVar[str] = "sqlite"
    __reduce__ = refuse_copies

    def __init__(self, path: str | Path, keep_rounds: int = 1, *, looking: bool = False) -> None:
        """Opens the store in the folder ``path``, and creates the folder if there is none.

        Args:
            path: The folder.
            keep_rounds: Number of rounds of each process to keep for `SqliteProcess.rewind`. It may differ
                at each opening. The next commit removes rounds beyond it.
            looking: Whether to show one moment of a store that may be in use, also on a read-only disk.
                Commits and other changes then raise errors.

        Raises:
            ConfigError: ``keep_rounds`` is not a positive integer.
            StoreError: The path is a file or another kind of folder, or the store is in use, or has another
                format.
            CorruptStoreError: The file is damaged.
        """
        self._path = Path(path).absolute()
        self._keep_rounds = rules.check_keep_rounds(keep_rounds)
        with ExitStack() as undo:
            if looking:
                require_store(self._path)
            else:
                _prepare(self._path)
                undo.callback(locked(self._path / _LOCK).close)
            self._database = Database(self._path / FILE, looking=looking)
            undo.callback(self._database.close)
            if not looking:
                _require_sync(self._path)
            self.turn = self._database.turn
            self._release = undo.pop_all().close

    def __repr__(self) -> str:
        return f"<sqlite store at {self._path}>"

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Opens ``sqlite:///relative/path`` or ``sqlite:////absolute/path``. The path is not decoded.

        The URL may end with ``?keep_rounds=N``. Any other question mark is part of the path.
        """
        return cls(*_arguments(url))

    @classmethod
    def look_into(cls, url: str) -> Self:
        """Opens an existing store for reading only, even while it is open elsewhere.

        Raises:
            ConfigError: The URL does not have the form that `from_url` accepts.
            StoreError: There is no store in the folder, or it cannot be opened.
        """
        return cls(*_arguments(url), looking=True)

    def get_config(self) -> dict[str, Json]:
        """Returns the path and the number of kept rounds."""
        return {"path": str(self._path), "keep_rounds": self._keep_rounds}

    @in_turn
    def open_process(self, process_id: str, signature: Mapping[str, object] | None = None) -> SqliteProcess:
        row = self._database.process_row(rules.check_text("process id", process_id))
        if row is None and signature is None:
            raise rules.no_such_process(str(self._path), process_id, self.processes())
        if row is None:
            with self._database.transaction():
                text = rules.to_json("signature", signature)
                self._database.put("processes", process_id, text, None, "null")
        elif signature is not None:
            rules.check_signature(str(self._path), process_id, row.signature, signature)
        return SqliteProcess(process_id, self._database, self._keep_rounds)

    @in_turn
    def processes(self) -> list[str]:
        return sorted(name for (name,) in self._database.rows("SELECT process FROM processes"))

    @in_turn
    def copy_to(self, folder: Path) -> None:
        """Copies the store, as it is at this moment, into an existing folder. Damaged states stay so.

        Raises:
            StoreError: A disk operation fails.
        """
        self._database.backup_to(folder / FILE)

    def close(self) -> None:
        if not self.turn.is_of_parent():
            with self.turn.lock:
                self._release()


def require_store(folder: Path) -> None:
    """Raises `StoreError` if a folder has no store. It may hold a damaged one."""
    if not (folder / FILE).is_file():
        raise StoreError(f"there is no store in {folder}; name its folder, for example runs/digits/state")


def _arguments(url: str) -> tuple[str, int]:
    """Splits a URL into the path and the number of rounds to keep."""
    place, separator, count = url.rpartition(_OPTION)
    path = rules.folder_of(place if separator else url, _PREFIX)
    if separator and not (count.isascii() and count.isdigit() and len(count) < 20):
        raise ConfigError(f"{url!r}: keep_rounds must be a number, as in {_OPTION}5")
    return path, int(count) if separator else 1


def _prepare(folder: Path) -> None:
    """Creates the folder of a store, or checks that an existing one is a store."""
    try:
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder} is a file; a store is a folder, so name another path")
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise StoreError(f"{folder} cannot be written to; `fedplug.stores.look_into` only reads a store")
        names = {path.name for path in folder.iterdir()} - {_LOCK, f"{_LOCK}-journal"}
        if names and not (folder / FILE).is_file():
            raise StoreError(
                f"{folder} is not a fedplug store: it is not empty and has no {FILE}; name a new folder"
            )
    except OSError as error:
        raise StoreError(f"{folder} cannot be used as a store: {error.strerror}") from error


def _require_sync(folder: Path) -> None:
    """Waits until the names are on the disk. SQLite does so for the files."""
    try:
        for place in (folder.parent, folder):
            system.sync_folder(place)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be used as a store: fsync fails: {error.strerror}; a crash could lose rounds, "
            "so use another file system, such as a local disk"
        ) from error
