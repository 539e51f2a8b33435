"""The SQLite file of a store: its tables, its settings, and its errors as those of a store.

Rows have checksums. An index and the table's key must agree on each owner's newest state, so that a lost row
never makes a client look new.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fedplug.errors import CorruptStoreError, StoreError, StoreInUseError
from fedplug.stores import blob
from fedplug.stores.base import State
from fedplug.stores.forks import Connection
from fedplug.stores.parts import Part, joined, sealed

__all__ = ["TREES", "Database", "ProcessRow", "locked"]

_LOG = "-wal"
"""The file name suffix of SQLite's log, which holds the newest transactions."""

TREES = ("sqlite_autoindex_states_1", "states_by_owner")
"""The index of the key of ``states``, and another one, which must agree."""

VERSION = 1
"""The version of the format."""

_APPLICATION = 0xFED9106  # in the file's header: marks an SQLite file as a store
_PAGE_SIZE = 1 << 14
_REMEDY = "restore the store from a copy, or start a new one"
_LOG_SIZE = 64 << 20  # bytes that the log keeps on the disk after a larger commit

_ERRORS = (sqlite3.Error, UnicodeDecodeError, MemoryError)
_IN_USE = ("SQLITE_BUSY", "SQLITE_LOCKED")

_SCHEMA = f"""
CREATE TABLE processes (
    process TEXT PRIMARY KEY, signature TEXT NOT NULL, round INTEGER, metadata TEXT NOT NULL,
    seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE rounds (
    process TEXT NOT NULL, round INTEGER NOT NULL, metadata TEXT NOT NULL, owners TEXT NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (process, round)
) WITHOUT ROWID;
CREATE TABLE states (
    process TEXT NOT NULL, owner TEXT NOT NULL, round INTEGER NOT NULL, part INTEGER NOT NULL,
    parts INTEGER NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (process, owner, round, part)
);
CREATE INDEX states_by_owner ON states (owner, process, round);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
"""
_SMALL_TABLES = {
    "processes": "SELECT process, signature, round, metadata, seal FROM processes",
    "rounds": "SELECT process, round, metadata, owners, seal FROM rounds",
}
_NEWEST = "SELECT MAX(round) FROM states INDEXED BY {} WHERE process = ?1 AND owner = ?2"
_COLUMNS = ", ".join(Part._fields)
_NEWEST_PARTS = (
    f"SELECT {_COLUMNS}, ({_NEWEST.format(TREES[1])}) FROM states "
    f"WHERE process = ?1 AND owner = ?2 AND round = ({_NEWEST.format(TREES[0])}) ORDER BY part"
)
_PARTS = f"SELECT {_COLUMNS} FROM states WHERE process = ? AND owner = ? AND round = ? ORDER BY part"
_NAMES = {
    "database is locked": "SQLITE_BUSY",
    "database table is locked": "SQLITE_LOCKED",
    "database or disk is full": "SQLITE_FULL",
    "disk I/O error": "SQLITE_IOERR",
    "attempt to write a readonly database": "SQLITE_READONLY",
    "unable to open database file": "SQLITE_CANTOPEN",
}
"""Names of errors other than damage, by message. Python 3.10 does not provide the names."""


class ProcessRow(NamedTuple):
    """The row of a process. ``signature`` and ``metadata`` are JSON texts."""

    process: str
    signature: str
    round: int | None
    metadata: str


class Database:
    """An open store file.

    Attributes:
        path: The file.
        turn: The lock for threads that share it.
    """

    def __init__(self, path: Path, *, looking: bool = False) -> None:
        """Opens the file. Creates it and its tables if there is none, unless it only looks.

        Args:
            path: The file.
            looking: Whether to show one moment of a file that may be in use, and to refuse every change.

        Raises:
            StoreError: The file is not a store's, cannot be used, or comes from another release.
            CorruptStoreError: The tables, or the row of a process or round, are damaged.
        """
        self.path = path
        self._looking = looking
        with self.translated():
            place = _to_look(path) if looking else str(path)
            self._db = Connection(
                place, where=path, uri=looking, timeout=5, isolation_level=None, check_same_thread=False
            )
            try:
                self._identify()
                self._check_small_tables()
            except BaseException:
                self._db.close()
                raise
        self.turn = self._db.turn
        self._known: tuple[int, ProcessRow] | None = None

    def close(self) -> None:
        """Releases the file. Closing twice is allowed."""
        with self.translated():
            self._db.close()

    def backup_to(self, path: Path) -> None:
        """Copies the file, as it is at this moment, to a new file."""
        with self.translated(), closing(sqlite3.connect(path)) as copy:
            self._db.backup(copy)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits the block's changes durably when it ends, or undoes them if it raises."""
        if self._looking:
            raise StoreError(f"{self.path} was opened for reading only; open its store with `open_store`")
        with self.translated():
            try:
                self._db.execute("BEGIN IMMEDIATE")  # inside try: an interrupt may follow it at once
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def execute(self, sql: str, *parameters: object) -> None:
        """Executes a statement of a transaction."""
        self._db.execute(sql, parameters)

    def rows(self, sql: str, *parameters: object) -> list[Any]:
        """Returns the rows of a query.

        Raises:
            StoreError: The file cannot be read.
        """
        try:  # without a frame of its own, because each call has a query
            return self._db.execute(sql, parameters).fetchall()
        except _ERRORS as error:
            raise self._translation(error) from error

    def put(self, table: str, *values: object) -> None:
        """Writes or replaces a row of a small table, with its checksum."""
        row = sealed(values)
        self._db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def sealed_rows(self, table: str, process: str) -> list[Any]:
        """Returns the rows of a process in a small table, without their checksums, by round.

        Raises:
            CorruptStoreError: A row is damaged.
        """
        found = self.rows(f"{_SMALL_TABLES[table]} WHERE process = ? ORDER BY round", process)
        return [self._unsealed(row) for row in found]

    def process_row(self, process: str) -> ProcessRow | None:
        """Returns the row of a process. None if there is none.

        The row that was read last is read again only after this connection, the only one, has made a change.

        Raises:
            CorruptStoreError: The row is damaged.
            StoreError: The file is closed or cannot be read.
        """
        try:
            changes = self._db.total_changes
        except _ERRORS as error:
            raise self._translation(error) from error
        if self._known is not None and self._known[0] == changes and self._known[1].process == process:
            return self._known[1]
        found = self.sealed_rows("processes", process)
        if not found:
            return None
        self._known = changes, ProcessRow(*found[0])
        return self._known[1]

    def newest(self, process: str, owner: str) -> int | None:
        """Returns the round of an owner's newest state. None if it has none.

        Raises:
            CorruptStoreError: The table's key and its index disagree.
        """
        with self.translated():
            queries = map(_NEWEST.format, TREES)
            (found,), (witness,) = (self._db.execute(one, (process, owner)).fetchone() for one in queries)
        if found != witness:
            raise self.corrupt(f"its two trees disagree on process {process!r}, {owner!r}")
        return None if found is None else int(found)

    def newest_state(self, process: str, owner: str) -> State | None:
        """Returns an owner's newest state, by one query. None if it has none.

        Raises:
            CorruptStoreError: A row is damaged, or the table's key and its index disagree.
        """
        rows = self.rows(_NEWEST_PARTS, process, owner)
        if not rows or rows[0][-1] != rows[0][2]:
            self.newest(process, owner)  # raises unless both say that there is none
            return None
        return self._decoded(process, owner, [Part(*row[:-1]) for row in rows])

    def state(self, process: str, owner: str, round_num: int) -> State:
        """Returns the state that an owner had in a round in which it was replaced.

        Raises:
            CorruptStoreError: A row is damaged.
        """
        found = [Part(*row) for row in self.rows(_PARTS, process, owner, round_num)]
        if not found:
            raise self.corrupt(f"it has no rows of process {process!r}, {owner!r}, round {round_num}")
        return self._decoded(process, owner, found)

    def damage(self) -> Iterator[str]:
        """Checks the file's structure and its small tables. Yields one line for each damage."""
        for check in ("PRAGMA integrity_check", *_SMALL_TABLES.values()):
            try:
                for row in self.rows(check):
                    if len(row) > 1:
                        self._unsealed(row)
                    elif row != ("ok",):
                        yield str(self.corrupt(_one_line(row[0])))
            except CorruptStoreError as error:
                yield str(error)

    def corrupt(self, what: str) -> CorruptStoreError:
        """Returns the error for damage."""
        return CorruptStoreError(f"{self.path} is corrupt: {what}; {_REMEDY}")

    def _decoded(self, process: str, owner: str, found: list[Part]) -> State:
        return blob.decode(joined(process, owner, found, str(self.path), _REMEDY))

    def _identify(self) -> None:
        """Checks the format, and makes the tables of a new file."""
        application, version = self._pragma("application_id"), self._pragma("user_version")
        fresh = application == 0 and self._pragma("schema_version") == 0
        if not fresh and application != _APPLICATION:
            raise StoreError(
                f"{self.path} is not the file of a fedplug store; name a new folder for the store"
            )
        if not fresh and version != VERSION:
            raise StoreError(
                f"{self.path} has format version {version}, and this release of fedplug reads version "
                f"{VERSION}; use the release that wrote it, or a newer one"
            )
        if self._looking:
            self._db.execute("BEGIN")  # the first query begins the moment that all others see
            return
        self._db.execute("PRAGMA synchronous = FULL")
        if fresh:
            self._db.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA journal_size_limit = {_LOG_SIZE}")
        if fresh:
            with self.transaction():
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)

    def _check_small_tables(self) -> None:
        for table, query in _SMALL_TABLES.items():
            if (verdict := self._pragma(f"integrity_check({table})")) != "ok":
                raise self.corrupt(_one_line(verdict))
            for row in self._db.execute(query):
                self._unsealed(row)

    def _pragma(self, text: str) -> Any:
        (value,) = self._db.execute(f"PRAGMA {text}").fetchone()
        return value

    def _unsealed(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        if row != sealed(row[:-1]):
            raise self.corrupt(f"the row {row[:-1]!r} fails its checksum")
        return row[:-1]

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translates SQLite's errors to `StoreError`."""
        try:
            yield
        except _ERRORS as error:
            raise self._translation(error) from error

    def _translation(self, error: Exception) -> StoreError:
        if isinstance(error, sqlite3.ProgrammingError):
            return StoreError(f"the store of {self.path} is closed")
        # Constant SQL fails only if the schema or a text in the file is damaged. Python cannot decode
        # messages that quote damaged text, and a damaged length may exceed the memory.
        name = _name_of(error)
        if name.startswith(_IN_USE):
            return _in_use(self.path)
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")):
            return CorruptStoreError(
                f"{self.path} is corrupt or not a fedplug store: {_one_line(error)}; {_REMEDY}"
            )
        return StoreError(f"{self.path} cannot be used: {_one_line(error)}")


def locked(path: Path) -> Connection:
    """Locks a file until the connection is closed or the process ends. SQLite does so on every system.

    Raises:
        StoreInUseError: The file is locked, in this process or another.
        StoreError: The file cannot be locked.
    """
    try:
        lock = Connection(
            str(path), where=path.parent, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except BaseException:
            lock.close()
            raise
    except sqlite3.Error as error:
        if _name_of(error).startswith(_IN_USE):
            raise _in_use(path.parent) from error
        raise StoreError(
            f"{path} cannot be locked: {_one_line(error)}; a store needs a file system that has locks, "
            "such as a local disk"
        ) from error
    return lock


def _in_use(place: Path) -> StoreInUseError:
    return StoreInUseError(
        f"{place} is open elsewhere; a store has one user at a time, so close it there first"
    )


def _name_of(error: Exception) -> str:
    unnamed = "SQLITE_NOMEM" if isinstance(error, MemoryError) else "SQLITE_ERROR"
    name: str = getattr(error, "sqlite_errorname", _NAMES.get(str(error), unnamed))
    return name


def _one_line(error: object) -> str:
    return " ".join(str(error).split())


def _to_look(path: Path) -> str:
    """Returns the URI with which SQLite creates nothing, also where nothing can be written."""
    if os.access(path.parent, os.W_OK):
        mode = "mode=rw"
    else:  # without a log, SQLite would create an empty one
        mode = "mode=ro" if path.with_name(path.name + _LOG).exists() else "immutable=1"
    return f"{path.as_uri()}?{mode}"
