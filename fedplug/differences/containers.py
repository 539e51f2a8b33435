"""Containers one after the other in a stream of untrusted bytes."""

from __future__ import annotations

import struct
from typing import BinaryIO

from fedplug import wire
from fedplug.errors import PayloadError

__all__ = ["ContainerReader"]

_PREFIX = 8
"""Offset of the wire id in a container; its length and the rank are the two bytes before it."""


class ContainerReader:
    """Reads containers whole; a length that the stream does not have is refused before memory is allocated.

    Args:
        stream: The bytes.
        size: Their number.
    """

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = size

    def next(self) -> bytes:
        """Returns the bytes of the next container, which are not checked.

        Raises:
            PayloadError: The stream ends before it.
        """
        prefix = self._read(_PREFIX)
        if prefix[:4] != wire.MAGIC or prefix[4] != wire.VERSION:
            raise PayloadError(f"there is no container of version {wire.VERSION}: it begins with {prefix!r}")
        rest = self._read(prefix[6] + 4 * prefix[7] + 8)
        (length,) = struct.unpack("<Q", rest[-8:])
        return prefix + rest + self._read(length + wire.CHECKSUM_BYTES)

    def finish(self) -> None:
        """Raises PayloadError if bytes are left."""
        if self._left:
            raise PayloadError(f"{self._left} bytes follow the end of the difference")

    def _read(self, size: int) -> bytes:
        if size > self._left:
            raise PayloadError(
                f"the difference is truncated: {size} bytes are missing, and {self._left} left"
            )
        read = self._stream.read(size)
        if len(read) < size:
            raise PayloadError("the difference became shorter while it was read")
        self._left -= size
        return read
