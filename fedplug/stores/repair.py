"""Recovers as much as possible of a damaged store on disk, and lists the losses.

An index that is lost, damaged or older than the segments is rebuilt. The sources are the notes at the ends of
the segments and the rows that remain of the index, each of which has a checksum. The new index holds only the
newest round of each process. The damaged one is kept as ``index.sqlite3.damaged``.

Damaged states are only listed, unless the caller asks to drop them. Then a client whose newest state is
damaged starts afresh, and kept rounds that need another damaged state are discarded.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fedplug.errors import CorruptStoreError, StoreError, StoreInUseError
from fedplug.stores import note, recovery, system
from fedplug.stores.index import LOG, Index, reading
from fedplug.stores.lock import FolderLock
from fedplug.stores.rows import VERSION, Entry, ProcessRow, RoundRow, SegmentRow, sealed
from fedplug.stores.segment import Extent, SegmentFolder, read_list
from fedplug.stores.sqlite import INDEX, SEGMENTS, SqliteStore
from fedplug.stores.sqlite_process import SqliteProcess

__all__ = ["Report", "repair_store"]

_ASIDE = ".damaged"
_SPARE = 1000


class Report(NamedTuple):
    """The findings and actions of a repair, as lines for its caller.

    Attributes:
        done: Recovered data and, on request, dropped data.
        lost: Lost data.
    """

    done: list[str]
    lost: list[str]


def repair_store(folder: str | Path, *, drop_damaged: bool = False) -> Report:
    """Repairs the store in a folder, which must not be in use.

    Args:
        folder: The folder of the store.
        drop_damaged: Whether to drop damaged states, except the server's newest.

    Raises:
        StoreError: The folder is in use, is not a store, or has a newer format, or a disk operation fails.
    """
    folder = Path(folder)
    if not (folder / SEGMENTS).is_dir():
        raise StoreError(f"there is no store in {folder}; name its folder, for example runs/digits/state")
    report = Report([], [])
    lock = FolderLock(folder)
    with closing(lock), lock:
        if _index_is_damaged(folder):
            _make_index(folder, report)
    with SqliteStore(folder) as store:
        for name in store.processes():
            _repair_states(store.open_process(name), drop_damaged, report)
    return report


def _repair_states(process: SqliteProcess, drop_damaged: bool, report: Report) -> None:
    # A list, because the index must not change while it is read.
    damaged = [(entry, message, process.first_without(entry)) for entry, message in process.damaged()]
    for entry, message, replaced in damaged:
        if not drop_damaged or (replaced is None and entry.is_server):
            report.lost.append(message)
        elif replaced is None:
            process.drop_clients([entry.client])
            report.done.append(f"dropped, begins anew: {entry}")
        else:
            process.forget_rounds_before(replaced)
            report.done.append(f"dropped, with the rounds before {replaced}: {entry}")


def _index_is_damaged(folder: Path) -> bool:
    """Returns whether the index is missing, damaged or older than the segments.

    Raises:
        StoreError: The index cannot be used for another reason.
    """
    if not (folder / INDEX).is_file():
        return True
    segments = SegmentFolder(folder / SEGMENTS)
    try:
        recovery.require_current(folder / INDEX, segments)
        with closing(Index(folder / INDEX, create=False)) as index:
            recovery.recover(index, segments)
            return any(index.damage())
    except StoreInUseError:
        raise
    except StoreError as error:
        # A damaged header can make SQLite report any error, for example that the file is read-only.
        if isinstance(error, CorruptStoreError) or isinstance(
            error.__cause__, sqlite3.Error | UnicodeDecodeError | MemoryError
        ):
            return True
        raise


def _make_index(folder: Path, report: Report) -> None:
    segments = SegmentFolder(folder / SEGMENTS)
    told = _Told(segments)
    processes = told.add_rows(folder / INDEX)
    _bring_up(processes, told)
    part = folder / (INDEX + ".part")
    part.unlink(missing_ok=True)
    index = Index(part, create=True)
    try:
        with index.transaction():
            # Transactions that added no segment may have followed the last one that a note records.
            index.begin_at(told.generation + _SPARE)
            _fill(index, processes.values(), told)
    finally:
        index.close()
    aside = folder / (INDEX + _ASIDE)
    for ending in ("", LOG):  # the log, too: SQLite must find it beside the damaged index
        with suppress(FileNotFoundError):
            Path(f"{folder / INDEX}{ending}").replace(f"{aside}{ending}")
    system.replace(part, folder / INDEX)
    system.sync_folder(folder)
    for segment in told.silent:
        if segment not in {entry.extent.segment for entry in told.newest.values()}:
            _set_aside(segments, segment, report)
        else:
            report.lost.append(
                f"{segments.path(segment)} has no readable note: states that the index did not name either "
                "are lost, and their clients begin anew or from an older state"
            )
    for segment in sorted(read_list(folder) - {*segments.ids(), *told.silent}):
        report.lost.append(
            f"{segments.path(segment)} is missing, and so is the index that named its states: their clients "
            "begin anew or from an older state, and a process whose last round was in it goes back to an "
            "earlier one"
        )
    clients = Counter(entry.process for entry in told.newest.values() if not entry.is_server)
    for row in processes.values():
        report.done.append(
            f"process {row.process!r} is restored to round {row.round}, with {clients[row.process]} clients"
        )


class _Told:
    """The contents of the notes of all segments, and of the index's rows where there is no note.

    Attributes:
        generation: The highest known generation.
        newest: The newest blob by process and owner.
        finished: The data of rounds, by process and round.
        notes: The size of each segment's note.
        silent: The segments without a readable note.
    """

    def __init__(self, segments: SegmentFolder) -> None:
        self.generation = 0
        self.newest: dict[tuple[str, str], Entry] = {}
        self.finished: dict[tuple[str, int], note.Finished] = {}
        self.notes: dict[int, int] = {}
        self.silent: list[int] = []
        for segment in segments.ids():
            found = note.read(segments.path(segment))
            if found is None:
                self.silent.append(segment)
                continue
            self.generation = max(self.generation, found.generation)
            self.notes[segment] = recovery.note_size(segment, found, segments)
            if found.commit:
                self._forget_what_was_undone(found)
            self.finished |= found.finished
            for entry in found.entries:
                self._add(entry)

    def add_rows(self, path: Path) -> dict[str, ProcessRow]:
        """Adds the blobs whose segments have no readable note. Returns the rows of the processes.

        If the index is older than the notes, only its rows for segments without a note are used. The rounds
        of its processes are then ignored.
        """
        generation, processes, entries = _salvage(path)
        is_older = generation is not None and generation + 1 < self.generation
        self.generation = max(self.generation, generation or 0)
        for entry in entries:
            segment = entry.extent.segment
            if segment in self.silent or (segment not in self.notes and not is_older):
                self._add(entry)
        if is_older:
            return {name: row._replace(round=None) for name, row in processes.items()}
        return processes

    def _add(self, entry: Entry) -> None:
        """Records a blob as its owner's newest, unless a newer one is known."""
        key = (entry.process, entry.owner)
        if key not in self.newest or self.newest[key].round <= entry.round:
            self.newest[key] = entry

    def _forget_what_was_undone(self, found: note.Note) -> None:
        """Removes rounds that the note's round replaces: it was committed again after a rewind or error."""
        for process, number in found.finished:
            undone = [
                key
                for key, entry in self.newest.items()
                if entry.process == process and entry.round >= number
            ]
            for key in undone:
                del self.newest[key]


def _salvage(path: Path) -> tuple[int | None, dict[str, ProcessRow], list[Entry]]:
    """Reads the generation and the rows of a damaged index that SQLite finds and whose checksums match."""
    generation, processes, entries = None, {}, []
    if path.is_file():
        with suppress(sqlite3.Error), reading(path) as database:
            for _, number in _sound(database, f"{VERSION}, generation, seal FROM generation"):
                generation = number
            database.text_factory = lambda text: text.decode(errors="replace")
            # Damage can put pages of other tables in this one's place. Their rows have other types.
            columns = "process, signature, round, metadata, seal"
            types = "typeof(signature) = 'text' AND typeof(round) <> 'text'"
            for row in _sound(database, f"{columns} FROM processes WHERE {types}"):
                processes[row[0]] = ProcessRow(*row)
            columns = "process, owner, round, segment, position, size, checksum, seal"
            for process, owner, number, *extent in _sound(database, f"{columns} FROM blobs"):
                entries.append(Entry(process, owner, number, Extent(*extent)))
    return generation, processes, entries


def _sound(database: sqlite3.Connection, columns: str) -> Iterator[tuple[Any, ...]]:
    with suppress(Exception):  # a damaged file can raise any error; the rows read so far are used
        for row in database.execute(f"SELECT {columns}"):
            if row == sealed(row[:-1]):
                yield row[:-1]


def _bring_up(processes: dict[str, ProcessRow], told: _Told) -> None:
    """Adds the processes that only notes name, and updates each process to its newest round.

    Raises:
        CorruptStoreError: The server state of a process's last round is missing. Nothing was changed.
    """
    servers = {entry.process: entry for entry in told.newest.values() if entry.is_server}
    for name in {process for process, _ in told.newest} | processes.keys():
        row, server = processes.get(name), servers.get(name)
        newest = max((entry.round for key, entry in told.newest.items() if key[0] == name), default=None)
        if row is not None and row.round is not None:
            newest = row.round if newest is None else max(newest, row.round)
        if newest is None:
            continue
        finished = told.finished.get((name, newest))
        if finished is not None:
            processes[name] = ProcessRow(name, finished.signature, newest, finished.metadata)
        elif row is None or row.round != newest:
            raise _beyond_repair(name, newest)
        if server is None or server.round != newest:
            raise _beyond_repair(name, newest)


def _beyond_repair(process: str, number: int) -> CorruptStoreError:
    return CorruptStoreError(
        f"the server's state of process {process!r}, round {number}, is in no readable segment; nothing was "
        "changed; restore the store from a copy, or start a new one"
    )


def _fill(index: Index, processes: Iterable[ProcessRow], told: _Told) -> None:
    for row in processes:
        index.put_process(row)
        if row.round is not None:
            index.put_round(RoundRow(row.process, row.round, row.metadata, "[]"))
    for segment in {entry.extent.segment for entry in told.newest.values()}:
        index.put_segment(SegmentRow(segment, 0, told.notes.get(segment, 0), 0))
    for entry in told.newest.values():
        index.put(entry)


def _set_aside(segments: SegmentFolder, segment: int, report: Report) -> None:
    aside = segments.set_aside(segment)
    report.lost.append(
        f"{segments.path(segment)} has no readable note: its states are lost, and their clients begin anew "
        f"or from an older state; it is kept as {aside}"
    )
