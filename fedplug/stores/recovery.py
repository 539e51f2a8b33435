"""Compares the index of a store on disk with its segments when the store is opened.

The note of a segment records the transaction that added it: the blobs, the round, and the generation of the
index afterwards. The segments therefore show the content that the index should have:

- A segment of an earlier generation was released by a later transaction. It is garbage.
- A segment of the next generation was left by a crash between writing it and the index's commit. If it is
  whole, the transaction is repeated, so no round is lost, even one that was not yet reported as committed.
- A segment of a later generation shows that the index lost transactions: its log is damaged, or it is an
  older copy. The store is then not opened, and nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fedplug.errors import CorruptStoreError
from fedplug.stores import note
from fedplug.stores.index import LOG, Index
from fedplug.stores.rows import ProcessRow, RoundRow, SegmentRow
from fedplug.stores.segment import SegmentFolder, occupied

__all__ = ["Leftovers", "enter", "let_go", "note_size", "recover", "require_current"]


class Leftovers(NamedTuple):
    """Segments that the index does not need.

    Attributes:
        garbage: Segments that no kept round needs.
        torn: Segments of the next generation with incomplete blobs, which the disk had not confirmed.
    """

    garbage: list[int]
    torn: list[int]


def enter(index: Index, segment: int, size: int, told: note.Note) -> None:
    """Writes the blobs and the round of a new segment into the index, within the caller's transaction.

    Args:
        index: The index.
        segment: The number of the segment.
        size: The size of the segment's note.
        told: The segment's note.
    """
    index.put_segment(SegmentRow(segment, 0, size, 0))
    for entry in told.entries:
        index.put(entry)
    if told.commit:
        (((process, number), finished),) = told.finished.items()
        index.put_process(ProcessRow(process, finished.signature, number, finished.metadata))
        owners = json.dumps([entry.owner for entry in told.entries])
        index.put_round(RoundRow(process, number, finished.metadata, owners))


def let_go(index: Index, process_id: str, oldest: int) -> set[int]:
    """Removes the states that only rounds before ``oldest`` need, within the caller's transaction.

    Args:
        index: The index.
        process_id: The process.
        oldest: The oldest round to keep from now on.

    Returns:
        The segments of the removed states.
    """
    touched = set()
    for row in index.rounds(process_id):
        if row.round > oldest:
            break
        for owner in json.loads(row.owners):
            for entry in index.versions(process_id, owner):
                if entry.round < row.round:
                    index.remove(entry)
                    touched.add(entry.extent.segment)
        if row.round < oldest:
            index.remove_round(row)
        else:
            index.put_round(row._replace(owners="[]"))
    return touched


def require_current(path: Path, segments: SegmentFolder) -> None:
    """Raises if an index that was not closed is damaged or older than the segments. Changes no file.

    Call this before the index is opened for writing: closing it then deletes its log, readable or not.

    Raises:
        StoreError: The index cannot be opened. See `Index`.
        CorruptStoreError: The index is damaged, or older than the segments.
    """
    if not path.with_name(path.name + LOG).exists():
        return
    with closing(Index(path, create=False, read_only=True)) as index:
        known = {row.segment for row in index.segments()}
        _check_generation(path, index.generation, _notes(segments, known), segments)


def recover(index: Index, segments: SegmentFolder) -> Leftovers:
    """Brings the index up to date with its segments. Deletes no segment.

    Returns:
        The segments that the index does not need.

    Raises:
        CorruptStoreError: The index is older than its segments, or has lost the row of a segment.
    """
    known = {row.segment for row in index.segments()}
    notes = _notes(segments, known)
    if not notes:
        return Leftovers([], [])
    for segment in notes:
        if index.entries_in(segment):
            raise CorruptStoreError(
                f"{index.path} is corrupt: it has states in {segments.path(segment)}, but no row for this "
                f"segment; {index.remedy}"
            )
    next_one = index.generation + 1
    _check_generation(index.path, index.generation, notes, segments)
    unconfirmed = [segment for segment, told in notes.items() if told and told.generation == next_one]
    torn = [segment for segment in unconfirmed if not _is_whole(notes[segment], segments)]
    whole = [segment for segment in unconfirmed if segment not in torn]
    for segment in whole[-1:]:
        _repeat(index, segment, notes[segment], segments)
    needed = {row.segment for row in index.segments()}
    return Leftovers(sorted({*segments.ids()} - needed - {*torn}), torn)


def _notes(segments: SegmentFolder, known: Iterable[int]) -> dict[int, note.Note | None]:
    """Returns the notes of the segments that the index does not know, by segment in ascending order."""
    return {segment: note.read(segments.path(segment)) for segment in sorted({*segments.ids()} - {*known})}


def _check_generation(
    path: Path, generation: int, notes: dict[int, note.Note | None], segments: SegmentFolder
) -> None:
    for segment, told in notes.items():
        if told is not None and told.generation > generation + 1:
            raise CorruptStoreError(
                f"{path} is older than the segments: it has {generation} transactions, and "
                f"{segments.path(segment)} is from transaction {told.generation}; its log is damaged, or it "
                f"is an older copy; nothing was changed; run `fedplug store repair {path.parent}`"
            )


def _is_whole(told: note.Note | None, segments: SegmentFolder) -> bool:
    try:
        for entry in told.entries if told else ():
            segments.read(entry.extent, str(entry))
    except CorruptStoreError:
        return False
    return True


def _repeat(index: Index, segment: int, told: note.Note | None, segments: SegmentFolder) -> None:
    assert told is not None, "only notes that were read are repeated"
    with index.transaction():
        if not told.commit:  # the blobs were moved here from other segments
            for entry in told.entries:
                for version in index.versions(entry.process, entry.owner):
                    if version.round == entry.round:
                        index.remove(version)
        enter(index, segment, note_size(segment, told, segments), told)
        # If the transaction took place before, the segments of states that it removed may be deleted.
        missing = {row.segment for row in index.segments()} - {*segments.ids()}
        for process, number in told.finished if told.commit else ():
            for kept in [row.round for row in index.rounds(process) if row.round <= number][1:]:
                if any(each.process == process for lost in missing for each in index.entries_in(lost)):
                    let_go(index, process, kept)


def note_size(segment: int, told: note.Note, segments: SegmentFolder) -> int:
    """Returns the number of bytes of a segment that are not blobs."""
    return segments.size(segment) - sum(occupied(entry.extent.size) for entry in told.entries)
