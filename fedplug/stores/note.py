"""The note at the end of a segment. It names the blobs, so a lost index can be rebuilt from the notes.

A store reads the notes of segments that its index does not know (`fedplug.stores.recovery`), and all notes in
`verify`. `fedplug.stores.repair` rebuilds an index from them. A note is a JSON object, compressed with zlib
and padded to 64 bytes. The last 64 bytes of the file hold its position and its checksum.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedplug.errors import StoreError
from fedplug.stores.rows import Entry
from fedplug.stores.segment import ALIGNMENT, Extent, occupied

__all__ = ["Finished", "Note", "encode", "read", "retract"]

_MAGIC = b"fedplug note 1\n\0"
_TRAILER = struct.Struct("<16sQQI28x")
_LARGEST = 1 << 30  # decompressed bytes of a note


class Finished(NamedTuple):
    """The data of a round that a server blob carries. Both fields are JSON texts."""

    signature: str
    metadata: str


class Note(NamedTuple):
    """The description of a segment.

    Attributes:
        commit: Whether the segment is a whole round rather than a set of moved blobs.
        entries: The entries of all its blobs.
        finished: The data of the round of each server blob, by process and round.
        generation: The generation of the index after the transaction that adds this segment.
    """

    commit: bool
    entries: Sequence[Entry]
    finished: dict[tuple[str, int], Finished]
    generation: int


def encode(note: Note) -> bytes:
    """Encodes the bytes to append to a segment's blobs. All entries must be in that segment."""
    position = max((e.extent.position + occupied(e.extent.size) for e in note.entries), default=ALIGNMENT)
    value = {
        "commit": note.commit,
        "blobs": [[e.process, e.owner, e.round, *e.extent[1:]] for e in note.entries],
        "finished": [[*key, *value] for key, value in note.finished.items()],
        "generation": note.generation,
    }
    document = zlib.compress(json.dumps(value).encode(), 1)
    trailer = _TRAILER.pack(_MAGIC, position, len(document), zlib.crc32(document))
    return document.ljust(occupied(len(document)), b"\0") + trailer


def read(path: Path) -> Note | None:
    """Reads the note of a segment file. Returns None if it is missing or damaged.

    Raises:
        StoreError: The file cannot be read.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def retract(path: Path) -> None:
    """Truncates the note of a segment, because its transaction did not take place.

    The blobs stay: if the disk failed during the commit, SQLite may find the transaction after a crash.

    Raises:
        OSError: The file cannot be changed.
    """
    with path.open("rb+") as file:
        file.truncate(file.seek(0, 2) - _TRAILER.size)
        os.fsync(file.fileno())


def _read(path: Path) -> Note | None:
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - _TRAILER.size))
        trailer = file.read()
        if len(trailer) != _TRAILER.size:
            return None
        _, position, size, checksum = _TRAILER.unpack(trailer)
        if trailer != _TRAILER.pack(_MAGIC, position, size, checksum):
            return None
        if position + occupied(size) + _TRAILER.size != end:
            return None
        file.seek(position)
        document, padding = file.read(size), file.read(occupied(size) - size)
    if zlib.crc32(document) != checksum or any(padding):
        return None
    inflate = zlib.decompressobj()
    text = inflate.decompress(document, _LARGEST)
    if not inflate.eof:
        return None
    value = json.loads(text)
    segment = int(path.stem)
    entries = [
        Entry(process, owner, number, Extent(segment, *place))
        for process, owner, number, *place in value["blobs"]
    ]
    finished = {(process, number): Finished(*rest) for process, number, *rest in value["finished"]}
    return Note(value["commit"], entries, finished, value["generation"])
