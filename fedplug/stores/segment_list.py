"""The list of a store's needed segments: after a loss of the index it shows which segments are lost, too.

It is written after each transaction and before segments are deleted, in place and without an fsync: after a
power failure it may be older, and a list that is damaged or missing only tells nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from fedplug.stores.files import file_in_place

__all__ = ["LIST_FILE", "SegmentList", "read"]

LIST_FILE = "segments.list"


class SegmentList:
    """The list in the folder of an open store."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LIST_FILE
        self._written = read(folder)

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


def read(folder: Path) -> set[int]:
    """Returns the segments in the list of a folder. None if the list is missing or damaged."""
    try:
        head, _, rest = (folder / LIST_FILE).read_bytes().partition(b"\n")
        size, checksum = map(int, head.split())
        text = rest[:size]  # a longer list was there before
        return set(map(int, text.split())) if zlib.crc32(text) == checksum else set()
    except (OSError, ValueError):
        return set()
