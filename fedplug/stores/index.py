"""The index of a store on disk: an SQLite file whose commit is the commit of a round.

It says which processes there are, which round each holds, and where in which segment every blob lies. Each
row carries a checksum of itself, so that a damaged row is an error and never a wrong client or a client
without state.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores.forks import Connection
from fedplug.stores.segment import Extent, occupied

__all__ = ["SERVER", "Entry", "Index", "ProcessRow", "client_owner"]

SERVER = "server"
"""The owner of the server state; owners of client states start with ``client:``, so none can collide."""

_APPLICATION = 0xFED9106  # in the file's header: marks an SQLite file as the index of a store
_VERSION = 1
_RESTORE = "restore the store from a copy, or start a new one"

_SCHEMA = """
CREATE TABLE processes (
    process TEXT PRIMARY KEY, signature TEXT NOT NULL, round INTEGER, metadata TEXT NOT NULL,
    seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE blobs (
    process TEXT NOT NULL, owner TEXT NOT NULL, round INTEGER NOT NULL,
    segment INTEGER NOT NULL, position INTEGER NOT NULL, size INTEGER NOT NULL, checksum INTEGER NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (process, owner)
) WITHOUT ROWID;
CREATE INDEX blobs_by_segment ON blobs (segment);
"""
_ENTRY = "SELECT process, owner, round, segment, position, size, checksum, seal FROM blobs"


class ProcessRow(NamedTuple):
    """What is known of a process; ``signature`` and ``metadata`` are JSON texts."""

    process: str
    signature: str
    round: int | None
    metadata: str


class Entry(NamedTuple):
    """Whose blob of which round lies where."""

    process: str
    owner: str
    round: int
    extent: Extent

    def __str__(self) -> str:
        whose = "server state" if self.owner == SERVER else f"client {self.client!r}"
        return f"process {self.process!r}, {whose}, round {self.round}"

    @property
    def client(self) -> str:
        """The client id; only for entries of clients."""
        return self.owner.removeprefix("client:")


def client_owner(client_id: str) -> str:
    """The owner of a client's state."""
    return "client:" + client_id


class Index:
    """The open index; holds the lock that keeps others out until it is closed or the process ends."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Opens the file, and with ``create`` makes it where there is none.

        Raises:
            StoreError: It is in use, is not an index, cannot be written, or was made by a newer release.
            CorruptStoreError: Its structure or one of its rows is damaged.
        """
        self._path = path
        with self._translated():
            # Without a time limit of zero, a second opening would wait five seconds to say that it may not.
            self._db = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False, factory=Connection
            )
        try:
            with self._translated():
                self._lock_and_identify(create)
                self._check()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Releases the file; legal twice."""
        with self._translated():
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written within is on the disk when the block ends, or undone when it raises."""
        with self._translated():
            try:
                self._db.execute("BEGIN IMMEDIATE")  # within: an interrupt may come when it has begun
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def processes(self) -> list[str]:
        """The ids of all processes, sorted."""
        with self._translated():
            return sorted(name for (name,) in self._db.execute("SELECT process FROM processes"))

    def process(self, process_id: str) -> ProcessRow | None:
        """The row of one process."""
        with self._translated():
            query = "SELECT process, signature, round, metadata, seal FROM processes WHERE process = ?"
            row = self._db.execute(query, (process_id,)).fetchone()
            return None if row is None else ProcessRow(*self._unsealed(row))

    def put_process(self, row: ProcessRow) -> None:
        """Writes or replaces a process's row."""
        self._db.execute("INSERT OR REPLACE INTO processes VALUES (?, ?, ?, ?, ?)", _sealed(row))

    def entry(self, process_id: str, owner: str) -> Entry | None:
        """Where an owner's blob lies, if it has one."""
        with self._translated():
            row = self._db.execute(
                f"{_ENTRY} WHERE process = ? AND owner = ?", (process_id, owner)
            ).fetchone()
            return None if row is None else self._entry(row)

    def entries(self, process_id: str) -> list[Entry]:
        """All blobs of a process, in the order in which they lie on the disk."""
        with self._translated():
            rows = self._db.execute(f"{_ENTRY} WHERE process = ? ORDER BY segment, position", (process_id,))
            return [self._entry(row) for row in rows]

    def entries_in(self, segment: int) -> list[Entry]:
        """All blobs that live in a segment, in the order in which they lie there."""
        with self._translated():
            rows = self._db.execute(f"{_ENTRY} WHERE segment = ? ORDER BY position", (segment,))
            return [self._entry(row) for row in rows]

    def put(self, entry: Entry) -> None:
        """Writes or replaces where the owner's blob lies."""
        row = (entry.process, entry.owner, entry.round, *entry.extent)
        self._db.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _sealed(row))

    def segments(self) -> set[int]:
        """The segments that hold at least one blob."""
        with self._translated():
            return {segment for (segment,) in self._db.execute("SELECT DISTINCT segment FROM blobs")}

    def live_bytes(self, segment: int) -> int:
        """Bytes that the blobs alive in a segment occupy."""
        with self._translated():
            sizes = self._db.execute("SELECT size FROM blobs WHERE segment = ?", (segment,))
            return sum(occupied(size) for (size,) in sizes)

    def _lock_and_identify(self, create: bool) -> None:
        # Exclusive mode keeps the lock from the first access to the end, and needs no shared memory file.
        self._pragma("locking_mode = EXCLUSIVE")
        self._pragma("synchronous = FULL")
        application = self._pragma("application_id")
        fresh = application == 0 and self._pragma("schema_version") == 0
        if fresh and not create:
            raise CorruptStoreError(f"{self._path} is empty, but the store is not; {_RESTORE}")
        if not fresh and application != _APPLICATION:
            raise StoreError(
                f"{self._path} is not the index of a fedplug store; name a new folder for the store"
            )
        if not fresh and self._pragma("user_version") != _VERSION:
            raise StoreError(
                f"{self._path} has format version {self._pragma('user_version')}, and this release of "
                f"fedplug reads version {_VERSION}; use the release that wrote it, or a newer one"
            )
        self._pragma("journal_mode = WAL")
        self._db.execute("BEGIN EXCLUSIVE")
        if fresh:
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            self._pragma(f"application_id = {_APPLICATION}")
            self._pragma(f"user_version = {_VERSION}")
        self._db.execute("COMMIT")

    def _check(self) -> None:
        verdict = self._pragma("integrity_check(1)")
        if verdict != "ok":
            raise CorruptStoreError(f"{self._path} is corrupt: {_one_line(verdict)}; {_RESTORE}")
        for row in self._db.execute("SELECT process, signature, round, metadata, seal FROM processes"):
            self._unsealed(row)
        for row in self._db.execute(_ENTRY):
            self._unsealed(row)

    def _pragma(self, text: str) -> Any:
        row = self._db.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        process, owner, round_num, *extent = self._unsealed(row)
        return Entry(process, owner, round_num, Extent(*extent))

    def _unsealed(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        if row != _sealed(row[:-1]):
            raise CorruptStoreError(
                f"{self._path} is corrupt: the row {row[:-1]!r} fails its checksum; {_RESTORE}"
            )
        return row[:-1]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turns SQLite's errors into ours."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise StoreError(f"the store of {self._path} is closed") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # SQL that never changes is only refused when the file's schema or a text in it is damaged; when
            # SQLite quotes damaged text in its message, Python fails to decode the message.
            name = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                message = (
                    f"{self._path} is open elsewhere; a store has one user at a time, so close it there first"
                )
                raise StoreError(message) from error
            if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")):
                message = f"{self._path} is corrupt or no fedplug index: {_one_line(error)}; {_RESTORE}"
                raise CorruptStoreError(message) from error
            raise StoreError(f"{self._path} cannot be used: {_one_line(error)}") from error


def _sealed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with its checksum appended."""
    return (*row, zlib.crc32(ascii(tuple(row)).encode()))


def _one_line(message: object) -> str:
    """SQLite quotes what it found damaged, with its line breaks."""
    return " ".join(str(message).split())
