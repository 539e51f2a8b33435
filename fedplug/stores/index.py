"""The index of a store on disk: an SQLite file whose commit is the commit of a round.

It records the processes, the rounds of each, the place of every blob, and the live bytes of each segment.
The generation counts the transactions. Each row carries a checksum, so a damaged row is an error and never
another client's state. Owners are found in two trees that must agree, so a lost row never makes a client
look new. Rows of processes, rounds and segments are checked at opening. Rows of blobs, of which there may
be a million, are checked when they are used.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from fedplug.errors import CorruptStoreError, StoreError, StoreInUseError
from fedplug.stores.forks import Connection
from fedplug.stores.rows import VERSION, Entry, ProcessRow, RoundRow, SegmentRow, create_tables, sealed
from fedplug.stores.segment import Extent, occupied
from fedplug.stores.turns import Turn

__all__ = ["LOG", "Index", "copy_index", "reading"]

LOG = "-wal"
"""The file name suffix of SQLite's log, which holds the newest transactions of an index."""

_APPLICATION = 0xFED9106  # in the file's header: marks an SQLite file as a store's index

_ENTRY = "SELECT process, owner, round, segment, position, size, checksum, seal FROM blobs"
_PROCESS = "SELECT process, signature, round, metadata, seal FROM processes"
_ROUND = "SELECT process, round, metadata, owners, seal FROM rounds"
_SEGMENT = "SELECT segment, live, note, doomed, seal FROM segments"
# The seal also covers the format version.
_GENERATION = f"SELECT {VERSION}, generation, seal FROM generation"
_ROWS = (_PROCESS, _ROUND, _SEGMENT, _GENERATION, _ENTRY)
_NAMES = {
    "database is locked": "SQLITE_BUSY",
    "database table is locked": "SQLITE_LOCKED",
    "database or disk is full": "SQLITE_FULL",
    "disk I/O error": "SQLITE_IOERR",
    "attempt to write a readonly database": "SQLITE_READONLY",
    "unable to open database file": "SQLITE_CANTOPEN",
}
"""Names of errors other than damage, by message. Python 3.10 does not provide the names."""
_SMALL_TABLES = ("processes", "rounds", "segments", "generation")


class Index:
    """The open index. It holds the lock on the store until it is closed or the process ends.

    Attributes:
        path: The file that errors name.
        remedy: The end of errors about damage.
        turn: The lock for threads that share an index, unless it is read-only.
    """

    turn: Turn

    def __init__(
        self, path: Path, *, create: bool, named: Path | None = None, read_only: bool = False
    ) -> None:
        """Opens the file. ``create`` makes it if there is none.

        Args:
            path: The file.
            create: Whether to create a missing file.
            named: The file that errors name. ``path`` if None.
            read_only: Whether to leave the file and its log unchanged. They must not be in use.

        Raises:
            StoreError: The file is in use, is not an index, cannot be written, or comes from a newer release.
            CorruptStoreError: The tables, or the row of a process, round or segment, are damaged.
        """
        self.path = path if named is None else named
        self.remedy = f"run `fedplug store repair {self.path.parent}`, or restore the store from a copy"
        self._growth: Counter[int] = Counter()  # change of live bytes by segment in the open transaction
        self._files = ExitStack()
        self._db: sqlite3.Connection
        with self._translated():
            if read_only:
                self._db = self._files.enter_context(reading(path))
            else:
                # With SQLite's default timeout, a second opening would wait five seconds before its error.
                self._db = connection = sqlite3.connect(
                    path, timeout=0, isolation_level=None, check_same_thread=False, factory=Connection
                )
                self.turn = connection.turn
                self._files.callback(self._db.close)
        try:
            with self._translated():
                self._identify(create, read_only)
                self._check_small_tables()
        except BaseException:
            self._files.close()
            raise

    def close(self) -> None:
        """Releases the file. Closing twice is allowed."""
        with self._translated():
            self._files.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits the block's changes durably when it ends, or undoes them if it raises."""
        self._growth.clear()
        with self._translated():
            try:
                self._db.execute("BEGIN IMMEDIATE")  # inside try: an interrupt may follow it at once
                yield
                self._count_what_lives()
                self._set_generation(self.generation + 1)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @property
    def generation(self) -> int:
        """The number of transactions so far.

        Raises:
            CorruptStoreError: The row of the generation is damaged or missing.
        """
        row = self._one(_GENERATION)
        if row is None:
            raise self._corrupt("its generation is missing")
        return int(row[1])

    def begin_at(self, generation: int) -> None:
        """Sets the generation of a new index that replaces an older one, in its first transaction."""
        self._set_generation(generation)

    def processes(self) -> list[str]:
        """Returns the ids of all processes, sorted."""
        with self._translated():
            return sorted(name for (name,) in self._db.execute("SELECT process FROM processes"))

    def process(self, process_id: str) -> ProcessRow | None:
        """Returns the row of one process."""
        row = self._one(f"{_PROCESS} WHERE process = ?", process_id)
        return None if row is None else ProcessRow(*row)

    def put_process(self, row: ProcessRow) -> None:
        """Writes or replaces a process's row."""
        self._put("processes", row)

    def rounds(self, process_id: str) -> list[RoundRow]:
        """Returns the kept rounds of a process, oldest first."""
        rows = self._all(f"{_ROUND} WHERE process = ? ORDER BY round", process_id)
        return [RoundRow(*row) for row in rows]

    def put_round(self, row: RoundRow) -> None:
        """Writes or replaces a kept round's row."""
        self._put("rounds", row)

    def remove_round(self, row: RoundRow) -> None:
        """Removes the row of a kept round. `remove` removes its blobs."""
        self._db.execute("DELETE FROM rounds WHERE process = ? AND round = ?", (row.process, row.round))

    def entry(self, process_id: str, owner: str) -> Entry | None:
        """Returns the entry of an owner's newest blob, if there is one.

        Raises:
            CorruptStoreError: The row is damaged, or missing in one of the two trees.
        """
        query = f"{_ENTRY} WHERE process = ? AND owner = ? ORDER BY round DESC LIMIT 1"
        row = self._one(query, process_id, owner)
        with self._translated():
            query = "SELECT MAX(round) FROM blobs INDEXED BY blobs_by_owner WHERE owner = ? AND process = ?"
            (witness,) = self._db.execute(query, (owner, process_id)).fetchone()
        if witness != (None if row is None else row[2]):
            raise self._corrupt(f"its two trees disagree on process {process_id!r}, {owner!r}")
        return None if row is None else _entry(row)

    def versions(self, process_id: str, owner: str) -> list[Entry]:
        """Returns the entries of all blobs kept for an owner, oldest first."""
        rows = self._all(f"{_ENTRY} WHERE process = ? AND owner = ? ORDER BY round", process_id, owner)
        return [_entry(row) for row in rows]

    def entries(self, process_id: str) -> Iterator[Entry]:
        """Returns the entries of all blobs of a process, in disk order."""
        query = f"{_ENTRY} INDEXED BY blobs_by_segment WHERE process = ? ORDER BY segment, position"
        rows = self._all(query, process_id)
        return (_entry(row) for row in rows)

    def intact_entries(self, process_id: str) -> Iterator[Entry]:
        """Yields the entries whose rows are intact. `damage` names the others."""
        query = f"{_ENTRY} INDEXED BY blobs_by_segment WHERE process = ? ORDER BY segment, position"
        with suppress(CorruptStoreError), self._translated():
            for row in self._db.execute(query, (process_id,)):
                if self._damage_of(row) is None:
                    yield _entry(row[:-1])

    def owners(self, process_id: str) -> set[str]:
        """Returns the owners that have a blob.

        Raises:
            CorruptStoreError: A row is damaged, or missing in one of the two trees.
        """
        owners = {row[1] for row in self._all(f"{_ENTRY} WHERE process = ?", process_id)}
        with self._translated():
            query = "SELECT owner FROM blobs INDEXED BY blobs_by_owner WHERE process = ?"
            witness = {owner for (owner,) in self._db.execute(query, (process_id,))}
        if owners != witness:
            raise self._corrupt(f"its two trees disagree on the clients of process {process_id!r}")
        return owners

    def entries_in(self, segment: int) -> list[Entry]:
        """Returns the entries of all blobs in a segment, in disk order."""
        return [_entry(row) for row in self._all(f"{_ENTRY} WHERE segment = ? ORDER BY position", segment)]

    def put(self, entry: Entry) -> None:
        """Writes the entry of an owner's blob of a round."""
        self._put("blobs", (entry.process, entry.owner, entry.round, *entry.extent))
        self._growth[entry.extent.segment] += occupied(entry.extent.size)

    def remove(self, entry: Entry) -> None:
        """Removes the entry of a blob."""
        key = (entry.process, entry.owner, entry.round)
        self._db.execute("DELETE FROM blobs WHERE process = ? AND owner = ? AND round = ?", key)
        self._growth[entry.extent.segment] -= occupied(entry.extent.size)

    def segments(self) -> list[SegmentRow]:
        """Returns the rows of the segments that hold at least one live blob."""
        return [SegmentRow(*row) for row in self._all(_SEGMENT)]

    def segment_numbers(self) -> set[int]:
        """Returns the numbers of these segments, without the time-consuming check of their rows."""
        with self._translated():
            return {number for (number,) in self._db.execute("SELECT segment FROM segments")}

    def segment(self, segment: int) -> SegmentRow | None:
        """Returns the row of a segment. None if no blob in it is live."""
        row = self._one(f"{_SEGMENT} WHERE segment = ?", segment)
        return None if row is None else SegmentRow(*row)

    def put_segment(self, row: SegmentRow) -> None:
        """Writes or replaces a segment's row. The transaction's end adds the changes of ``live``."""
        self._put("segments", row)

    def forbid_writing(self) -> None:
        """Makes every later change raise an error."""
        with self._translated():
            self._pragma("query_only = ON")

    def damage(self) -> Iterator[str]:
        """Reads the whole file and yields one line for each damage."""
        for query in ("PRAGMA integrity_check", *_ROWS):
            try:
                with self._translated():
                    for row in self._db.execute(query):
                        if len(row) > 1:
                            damage = self._damage_of(row)
                        else:
                            damage = None if row == ("ok",) else self._corrupt(_one_line(row[0]))
                        if damage is not None:
                            yield str(damage)
            except CorruptStoreError as error:
                yield str(error)

    def _set_generation(self, generation: int) -> None:
        values = sealed((VERSION, generation))[1:]
        self._db.execute("UPDATE generation SET generation = ?, seal = ?", values)

    def _count_what_lives(self) -> None:
        for segment, growth in self._growth.items():
            row = self.segment(segment) or SegmentRow(segment, 0, 0, 0)
            if row.live + growth:
                self.put_segment(row._replace(live=row.live + growth))
            else:
                self._db.execute("DELETE FROM segments WHERE segment = ?", (segment,))

    def _identify(self, create: bool, read_only: bool) -> None:
        """Takes the lock, checks the format, and makes the tables of a new index."""
        if not read_only:
            # Exclusive mode keeps the lock until the end and needs no shared memory file.
            self._pragma("locking_mode = EXCLUSIVE")
            self._pragma("synchronous = FULL")
        application = self._pragma("application_id")
        fresh = application == 0 and self._pragma("schema_version") == 0
        if fresh and not create:
            raise CorruptStoreError(f"{self.path} is empty, but the store is not; {self.remedy}")
        version = self._pragma("user_version")
        if (application, version) != (_APPLICATION, VERSION):
            self._check_header()
        if not fresh and application != _APPLICATION:
            raise StoreError(
                f"{self.path} is not the index of a fedplug store; name a new folder for the store"
            )
        if not fresh and version != VERSION:
            raise StoreError(
                f"{self.path} has format version {version}, and this release of fedplug reads version "
                f"{VERSION}; use the release that wrote it, or a newer one"
            )
        if read_only:
            return
        self._pragma("journal_mode = WAL")
        self._db.execute("BEGIN EXCLUSIVE")
        if fresh:
            create_tables(self._db)
            self._pragma(f"application_id = {_APPLICATION}")
            self._pragma(f"user_version = {VERSION}")
        self._db.execute("COMMIT")

    def _check_header(self) -> None:
        """Raises if the tables have this version, because then the header is damaged."""
        with suppress(sqlite3.OperationalError):  # another version, or another program's file
            row = self._db.execute(_GENERATION).fetchone()
            if row is not None and self._damage_of(row) is None:
                raise self._corrupt("its header has another format than its tables")

    def _check_small_tables(self) -> None:
        for table in _SMALL_TABLES:
            self._check_structure(f"integrity_check({table})")
        for query in (_PROCESS, _ROUND, _SEGMENT, _GENERATION):
            for row in self._db.execute(query):
                self._unsealed(row)

    def _check_structure(self, check: str) -> None:
        verdict = self._pragma(check)
        if verdict != "ok":
            raise self._corrupt(_one_line(verdict))

    def _put(self, table: str, row: tuple[object, ...]) -> None:
        values = sealed(row)
        marks = ", ".join("?" * len(values))
        self._db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)

    def _one(self, query: str, *parameters: object) -> tuple[Any, ...] | None:
        with self._translated():
            row = self._db.execute(query, parameters).fetchone()
        return None if row is None else self._unsealed(row)

    def _all(self, query: str, *parameters: object) -> Iterator[tuple[Any, ...]]:
        with self._translated():
            for row in self._db.execute(query, parameters):
                yield self._unsealed(row)

    def _pragma(self, text: str) -> object:
        row = self._db.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]

    def _unsealed(self, row: tuple[object, ...]) -> tuple[Any, ...]:
        damage = self._damage_of(row)
        if damage is not None:
            raise damage
        return row[:-1]

    def _damage_of(self, row: tuple[object, ...]) -> CorruptStoreError | None:
        if row == sealed(row[:-1]):
            return None
        return self._corrupt(f"the row {row[:-1]!r} fails its checksum")

    def _corrupt(self, what: str) -> CorruptStoreError:
        return CorruptStoreError(f"{self.path} is corrupt: {what}; {self.remedy}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translates SQLite's errors to `StoreError`."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise StoreError(f"the store of {self.path} is closed") from error
        except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
            # Constant SQL fails only if the schema or a text in the file is damaged. Python cannot decode
            # messages that quote damaged text, and a damaged length may exceed the memory.
            unnamed = "SQLITE_NOMEM" if isinstance(error, MemoryError) else "SQLITE_ERROR"
            name = getattr(error, "sqlite_errorname", _NAMES.get(str(error), unnamed))
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                message = (
                    f"{self.path} is open elsewhere; a store has one user at a time, so close it there first"
                )
                raise StoreInUseError(message) from error
            if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")):
                message = f"{self.path} is corrupt or not a fedplug index: {_one_line(error)}; {self.remedy}"
                raise CorruptStoreError(message) from error
            raise StoreError(f"{self.path} cannot be used: {_one_line(error)}") from error


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Connects to an index that is not in use, without changing the file or its log."""
    log = path.with_name(path.name + LOG)
    # Without a log, SQLite would create an empty one.
    mode = "mode=ro" if log.exists() else "immutable=1"
    uri = f"{path.absolute().as_uri()}?{mode}"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as database:
            yield database
    finally:
        path.with_name(path.name + "-shm").unlink(missing_ok=True)


def copy_index(source: Path, target: Path) -> None:
    """Copies an index and its log. The caller must prevent changes meanwhile.

    Raises:
        OSError: A file cannot be read or written.
    """
    connection = Connection.opened_here(source)
    if connection is not None:
        # POSIX locks end at any close: reading the file here would release this process's lock.
        with closing(sqlite3.connect(target)) as copy:
            connection.backup(copy)
        return
    for ending in ("", LOG):
        path = source.with_name(source.name + ending)
        if path.exists():
            with path.open("rb") as file, target.with_name(target.name + ending).open("wb") as copied:
                shutil.copyfileobj(file, copied, 1 << 20)
                copied.flush()
                os.fsync(copied.fileno())


def _entry(row: tuple[Any, ...]) -> Entry:
    process, owner, round_num, *extent = row
    return Entry(process, owner, round_num, Extent(*extent))


def _one_line(message: object) -> str:
    """Joins the lines of a message: SQLite quotes damaged text with its line breaks."""
    return " ".join(str(message).split())
