"""Segment files: immutable files of checksummed blobs, one file per commit.

A segment is a 64-byte header, then the blobs in order, each padded with zeros to a multiple of 64 bytes, then
a note (`fedplug.stores.note`). The positions and checksums of blobs are recorded elsewhere. A segment is
complete and on the disk before `SegmentFolder.write` returns, and never changes afterwards.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores import system
from fedplug.stores.files import file_in_place

__all__ = ["ALIGNMENT", "Extent", "SegmentFolder", "SegmentList", "occupied", "read_list"]

ALIGNMENT = 64
_HEADER = b"fedplug segment 1\n".ljust(ALIGNMENT, b"\0")
_LIST_FILE = "segments.list"
_NAME = re.compile(r"(\d{10,})\.segment")


class Extent(NamedTuple):
    """The place of a blob.

    Attributes:
        segment: The number of the file.
        position: Offset of the first byte, a multiple of 64.
        size: Size in bytes, without the padding.
        checksum: CRC-32 of these bytes. It detects every change of one bit or within 32 adjacent bits, and
            all but one in 2**32 of other changes.
    """

    segment: int
    position: int
    size: int
    checksum: int


class SegmentFolder:
    """The folder of a store's segments. Other files in it are ignored.

    Attributes:
        next: The number of the next segment to write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(exist_ok=True)
            self.next = max(self.ids(), default=0) + 1
        except OSError as error:
            raise StoreError(f"{folder} cannot be used: {error.strerror}") from error

    def ids(self) -> list[int]:
        """Returns the numbers of the segments in the folder."""
        names = (_NAME.fullmatch(name) for name in os.listdir(self._folder))
        return sorted(int(name[1]) for name in names if name)

    def write(
        self, blobs: Iterable[bytes], note: Callable[[list[Extent]], bytes]
    ) -> tuple[list[Extent], int]:
        """Writes the blobs to a new segment. An iterator may produce them one by one.

        Args:
            blobs: The blobs, in the order of the file.
            note: A function from the blobs' extents to the note that follows them.

        Returns:
            The extent of each blob, and the size of the note.

        Raises:
            StoreError: The disk is full, or another disk operation fails. No file is left behind, also if
                producing a blob raises.
        """
        segment, self.next = self.next, self.next + 1
        path = self.path(segment)
        try:
            file = path.open("xb")  # an existing file belongs to another user and is not removed
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        try:
            with file:
                extents = list(_append(file, segment, blobs))
                said = note(extents)
                file.write(said)
                file.flush()
                os.fsync(file.fileno())
            system.sync_folder(self._folder)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return extents, len(said)

    def read(self, extent: Extent, owner: str) -> bytes:
        """Returns the bytes of a blob after checking them.

        The file is read, not mapped: an unreadable page of a mapped file kills the process, and a page that
        changes after its checksum was computed goes undetected.

        Raises:
            CorruptStoreError: The bytes are damaged. The message starts with ``owner``.
            StoreError: The file cannot be read.
        """
        path = self.path(extent.segment)
        try:
            with path.open("rb") as file:
                header = file.read(ALIGNMENT)
                file.seek(extent.position)
                blob = file.read(extent.size)
                padding = file.read(_padding(extent.size))
        except FileNotFoundError as error:
            raise _corrupt(owner, path, extent.position, "the file is missing") from error
        except OSError as error:
            raise StoreError(
                f"{owner}: {path} cannot be read at offset {extent.position}: {error.strerror}"
            ) from error
        if header != _HEADER:
            raise _corrupt(owner, path, 0, "the header is damaged")
        if len(blob) + len(padding) != occupied(extent.size):
            raise _corrupt(owner, path, extent.position, "the file is too short")
        if zlib.crc32(blob) != extent.checksum or any(padding):
            raise _corrupt(
                owner, path, extent.position, f"the checksum of {extent.size} bytes does not match"
            )
        return blob

    def size(self, segment: int) -> int:
        """Returns the size of a segment without its header; 0 if the file is missing."""
        try:
            return max(0, self.path(segment).stat().st_size - len(_HEADER))
        except FileNotFoundError:
            return 0

    def remove(self, segment: int) -> None:
        """Deletes a segment; a missing one is allowed."""
        try:
            self.path(segment).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path(segment)} cannot be removed: {error.strerror}") from error

    def set_aside(self, segment: int) -> Path:
        """Renames a segment to remove it from the store. Returns its new path."""
        path = self.path(segment)
        aside = path.with_name(path.name + ".damaged")
        try:
            path.replace(aside)
        except OSError as error:
            raise StoreError(f"{path} cannot be renamed: {error.strerror}") from error
        return aside

    def path(self, segment: int) -> Path:
        """Returns the file of a segment."""
        return self._folder / f"{segment:010d}.segment"


class SegmentList:
    """The list of the needed segments of an open store: if the index is lost, it names lost segments, too.

    It is written after each transaction and before segments are deleted, in place and without an fsync. After
    a power failure it may be older, and a list that is damaged or missing names no segment.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _LIST_FILE
        self._written = read_list(folder)

    def write(self, segments: Iterable[int]) -> None:
        """Replaces the list.

        Raises:
            StoreError: The file cannot be written.
        """
        needed = set(segments)
        if needed == self._written:
            return
        text = b" ".join(b"%d" % segment for segment in sorted(needed))
        with file_in_place(self._path) as file:
            file.write(b"%d %d\n%s" % (len(text), zlib.crc32(text), text))
        self._written = needed


def read_list(folder: Path) -> set[int]:
    """Returns the segments in the list of a folder. Empty if the list is missing or damaged."""
    try:
        head, _, rest = (folder / _LIST_FILE).read_bytes().partition(b"\n")
        size, checksum = map(int, head.split())
        text = rest[:size]  # a longer list was there before
        return set(map(int, text.split())) if zlib.crc32(text) == checksum else set()
    except (OSError, ValueError):
        return set()


def occupied(size: int) -> int:
    """Returns the number of bytes that a blob of ``size`` bytes takes in a segment."""
    return size + _padding(size)


def _append(file: BinaryIO, segment: int, blobs: Iterable[bytes]) -> Iterator[Extent]:
    file.write(_HEADER)
    position = len(_HEADER)
    for blob in blobs:
        file.write(blob)
        file.write(bytes(_padding(len(blob))))
        yield Extent(segment, position, len(blob), zlib.crc32(blob))
        position += occupied(len(blob))


def _padding(size: int) -> int:
    return -size % ALIGNMENT


def _corrupt(owner: str, path: Path, offset: int, what: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"{owner}: {path} is corrupt at offset {offset}: {what}; "
        "restore the store from a copy, or start a new one"
    )
