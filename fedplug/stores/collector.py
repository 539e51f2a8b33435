"""Frees the disk space of segments that a store no longer needs, in whole or in part."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from fedplug.errors import StoreError
from fedplug.stores import note, recovery
from fedplug.stores.index import Index
from fedplug.stores.rows import Entry, SegmentRow
from fedplug.stores.segment import Extent, SegmentFolder, SegmentList

__all__ = ["Collector"]


class Collector:
    """Deletes and rewrites segments by the number of live bytes that the index counts in them.

    A segment without live blobs is deleted. If less than half of a segment is live, its live blobs move to
    a new segment. So segments take at most twice the live bytes, and freeing a byte copies at most one.

    Failures lose no data, so they are silent. A full disk leaves the garbage for a later opening. Damaged
    blobs stay in place, so that a read or `verify` reports them.
    """

    def __init__(self, index: Index, segments: SegmentFolder, needed: SegmentList) -> None:
        self._index = index
        self._segments = segments
        self._needed = needed

    def open(self) -> None:
        """Recovers the segments that a crash left behind, and collects all others.

        Raises:
            CorruptStoreError: The index is older than the segments.
            StoreError: A segment cannot be deleted.
        """
        garbage, torn = recovery.recover(self._index, self._segments)
        with suppress(StoreError):
            self._write_list()
        for segment in garbage:
            self._segments.remove(segment)
        for segment in torn:
            self._segments.set_aside(segment)
        with suppress(StoreError):
            self._move_sparse(self._index.segments())

    def collect(self, segments: Iterable[int]) -> None:
        """Frees as much space of these segments as possible."""
        with suppress(StoreError):
            self._write_list()
            rows = []
            for segment in segments:
                row = self._index.segment(segment)
                if row is None:
                    self._segments.remove(segment)
                else:
                    rows.append(row)
            self._move_sparse(rows)

    def _move_sparse(self, rows: Iterable[SegmentRow]) -> None:
        sparse = [row.segment for row in rows if self._is_sparse(row)]
        if sparse:
            self._move([entry for segment in sparse for entry in self._index.entries_in(segment)])
            self._write_list()
            for segment in sparse:
                self._segments.remove(segment)

    def _write_list(self) -> None:
        self._needed.write(self._index.segment_numbers())

    def _is_sparse(self, row: SegmentRow) -> bool:
        return bool(row.doomed) or 2 * row.live < self._segments.size(row.segment) - row.note

    def _move(self, entries: list[Entry]) -> None:
        extents, size = self._segments.write(
            (self._segments.read(entry.extent, str(entry)) for entry in entries),
            lambda extents: note.encode(self._note(_at(entries, extents))),
        )
        with self._index.transaction():
            for entry in entries:
                self._index.remove(entry)
            recovery.enter(self._index, extents[0].segment, size, self._note(_at(entries, extents)))

    def _note(self, entries: list[Entry]) -> note.Note:
        finished = {}
        for process in {entry.process for entry in entries if entry.is_server}:
            row = self._index.process(process)
            assert row is not None, "an entry has a process"
            for kept in self._index.rounds(process):
                finished[process, kept.round] = note.Finished(row.signature, kept.metadata)
        held = {(entry.process, entry.round) for entry in entries if entry.is_server}
        told = {key: value for key, value in finished.items() if key in held}
        return note.Note(False, entries, told, self._index.generation + 1)


def _at(entries: list[Entry], extents: list[Extent]) -> list[Entry]:
    return [entry._replace(extent=extent) for entry, extent in zip(entries, extents, strict=True)]
