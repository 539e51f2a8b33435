"""The container around every payload, and its checksum.

`fedplug.wire` describes the layout, and writes and reads headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import fedplug._kernels as _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedplug.types import Array

    ByteBuffer: TypeAlias = bytes | bytearray | memoryview | Array

__all__ = ["crc32", "frame", "frame_of_each", "unframe"]


def frame(body: ByteBuffer | list[ByteBuffer] | tuple[ByteBuffer, ...], header: bytes) -> bytes:
    """Puts an encoder's bytes into a container.

    Args:
        body: Any C-contiguous buffer, or an array of any dtype, whose bytes are copied as they lie. A list or
            tuple of buffers is written one after the other, without joining them first.
        header: The header from :func:`fedplug.wire.header`. The same for all payloads of one tensor under one
            encoder.

    Raises:
        ArgumentError: ``body``, or a part of it, is not a buffer or not C-contiguous.
    """
    return _kernels.frame(body, header)


def frame_of_each(bodies: Sequence[Array], headers: Sequence[bytes]) -> list[bytes]:
    """Puts the bytes of several encoders into containers, in parallel. See `frame`.

    Raises:
        ArgumentError: The numbers of bodies and headers differ, or a body is not C-contiguous.
    """
    return _kernels.frame_of_each(list(bodies), list(headers))


def unframe(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], NDArray[np.uint8]]:
    """Reads a container without copying its body. Every byte is untrusted.

    Args:
        buffer: Any C-contiguous buffer or array. The returned body is a view of it, which keeps the buffer
            alive and stops a ``bytearray`` from being resized. A later write into the buffer changes the
            body, and no checksum detects that.

    Returns:
        ``(wire_id, dtype, shape, body)``. ``body`` is ``[bytes]`` uint8 and read-only.

    Raises:
        ArgumentError: ``buffer`` is not C-contiguous.
        PayloadError: The buffer is truncated or too long, has another format or version, or its checksum is
            wrong.
    """
    return _kernels.read_container(buffer)


def crc32(data: ByteBuffer) -> int:
    """Returns the CRC-32 of zlib, PNG and Ethernet, in ``[0, 2**32)``.

    Args:
        data: Any C-contiguous buffer. Its bytes are read as they lie.

    Raises:
        ArgumentError: ``data`` is not C-contiguous.
    """
    return _kernels.crc32(data)
