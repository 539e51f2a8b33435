"""Brings back what can be of a damaged store on disk, and lists what cannot.

A lost or damaged index is made anew: from the rows that are left of it, each of which has a checksum, and
from the notes at the ends of the segments. The new index holds the newest round of each process and no older.
The damaged one is not deleted but set aside as ``index.sqlite3.damaged``.

States that are damaged are only listed, unless the caller asks to drop those of clients: these begin anew.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores import note
from fedplug.stores.index import Index
from fedplug.stores.lock import FolderLock
from fedplug.stores.rows import Entry, ProcessRow, RoundRow, SegmentRow
from fedplug.stores.schema import sealed
from fedplug.stores.segment import Extent, SegmentFolder, occupied, sync_folder
from fedplug.stores.sqlite import INDEX, SEGMENTS, SqliteStore

__all__ = ["Report", "repair_store"]

_ASIDE = ".damaged"


class Report(NamedTuple):
    """What a repair found and did, as lines for whoever asked for it.

    Attributes:
        done: What was brought back or, on request, dropped.
        lost: What could not be brought back.
    """

    done: list[str]
    lost: list[str]


def repair_store(folder: str | Path, *, drop_damaged: bool = False) -> Report:
    """Repairs the store in a folder, which must not be in use.

    Args:
        folder: Of the store.
        drop_damaged: Whether clients whose state is damaged are to begin anew.

    Raises:
        StoreError: It is in use, is no store, or of a newer release; the disk refuses.
    """
    folder = Path(folder)
    if not (folder / SEGMENTS).is_dir():
        raise StoreError(f"there is no store in {folder}; name its folder, for instance runs/digits/state")
    report = Report([], [])
    if _index_is_damaged(folder):
        lock = FolderLock(folder)
        with closing(lock), lock:
            _make_index(folder, report)
    with SqliteStore(folder) as store:
        for name in store.processes():
            process = store.open_process(name)
            # A list, for the index must not change under the reading of it.
            for entry, message in list(process.damaged()):
                if drop_damaged and not entry.is_server:
                    process.drop_clients([entry.client])
                    report.done.append(f"dropped, begins anew: {entry}")
                else:
                    report.lost.append(message)
    return report


def _index_is_damaged(folder: Path) -> bool:
    """Whether the index is missing or fails its checks; raises `StoreError` for all else that is wrong."""
    if not (folder / INDEX).is_file():
        return True
    try:
        index = Index(folder / INDEX, create=False)
    except CorruptStoreError:
        return True
    try:
        index.check()
    except CorruptStoreError:
        return True
    finally:
        index.close()
    return False


def _make_index(folder: Path, report: Report) -> None:
    segments = SegmentFolder(folder / SEGMENTS)
    told = _Told(segments)
    processes, rows = _salvage(folder / INDEX)
    for entry in rows:
        told.add(entry)
    _bring_up(processes, told)
    aside = folder / (INDEX + _ASIDE)
    for ending in ("", "-wal"):  # so that SQLite finds the log of the one that was set aside
        with suppress(FileNotFoundError):
            Path(f"{folder / INDEX}{ending}").replace(f"{aside}{ending}")
    for segment in told.silent:
        if segment not in {entry.extent.segment for entry in told.newest.values()}:
            _set_aside(segments.path(segment), report)
        else:
            report.lost.append(
                f"{segments.path(segment)} has no readable note: states that the index did not name either "
                "are lost, and their clients begin anew or from an older state"
            )
    part = folder / (INDEX + ".part")
    part.unlink(missing_ok=True)
    index = Index(part, create=True)
    try:
        with index.transaction():
            _fill(index, processes.values(), told)
    finally:
        index.close()
    part.replace(folder / INDEX)
    sync_folder(folder)
    clients = Counter(entry.process for entry in told.newest.values() if not entry.is_server)
    for row in processes.values():
        report.done.append(
            f"process {row.process!r} is back at round {row.round}, with {clients[row.process]} clients"
        )


class _Told:
    """What the notes of all segments tell.

    Attributes:
        newest: The newest blob by process and owner.
        finished: What rounds left besides, by process and round.
        notes: Size of each segment's note.
        silent: Segments without a readable one.
    """

    def __init__(self, segments: SegmentFolder) -> None:
        self.newest: dict[tuple[str, str], Entry] = {}
        self.finished: dict[tuple[str, int], note.Finished] = {}
        self.notes: dict[int, int] = {}
        self.silent: list[int] = []
        for segment in segments.ids():
            found = note.read(segments.path(segment))
            if found is None:
                self.silent.append(segment)
                continue
            blobs = sum(occupied(entry.extent.size) for entry in found.entries)
            self.notes[segment] = segments.size(segment) - blobs
            if found.commit:
                self._forget_what_was_undone(found)
            self.finished |= found.finished
            for entry in found.entries:
                self.add(entry)

    def add(self, entry: Entry) -> None:
        """Takes a blob for the owner's newest, unless a newer one is known."""
        key = (entry.process, entry.owner)
        if key not in self.newest or self.newest[key].round <= entry.round:
            self.newest[key] = entry

    def _forget_what_was_undone(self, found: note.Note) -> None:
        """A round that is committed again, after going back or after an error, replaces its first form."""
        for process, number in found.finished:
            undone = [
                key
                for key, entry in self.newest.items()
                if entry.process == process and entry.round >= number
            ]
            for key in undone:
                del self.newest[key]


def _salvage(path: Path) -> tuple[dict[str, ProcessRow], list[Entry]]:
    """The rows of a damaged index whose checksums are right, as far as SQLite still finds them."""
    processes, entries = {}, []
    if path.is_file():
        with closing(sqlite3.connect(path)) as database:
            database.text_factory = lambda text: text.decode(errors="replace")
            for row in _sound(database, "process, signature, round, metadata, seal FROM processes"):
                processes[row[0]] = ProcessRow(*row)
            columns = "process, owner, round, segment, position, size, checksum, seal"
            for process, owner, number, *extent in _sound(database, f"{columns} FROM blobs"):
                entries.append(Entry(process, owner, number, Extent(*extent)))
    return processes, entries


def _sound(database: sqlite3.Connection, columns: str) -> Iterator[tuple[Any, ...]]:
    with suppress(sqlite3.Error):
        for row in database.execute(f"SELECT {columns}"):
            if row == sealed(row[:-1]):
                yield row[:-1]


def _bring_up(processes: dict[str, ProcessRow], told: _Told) -> None:
    """Adds the processes that only notes know, and takes those that have newer rounds there to the newest.

    Raises:
        CorruptStoreError: The server's state of a process's last round is not found; nothing was changed.
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


def _set_aside(path: Path, report: Report) -> None:
    aside = path.with_name(path.name + _ASIDE)
    path.replace(aside)
    report.lost.append(
        f"{path} has no readable note: its states are lost, and their clients begin anew or from an older "
        f"state; it is kept as {aside}"
    )
