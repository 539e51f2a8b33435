"""The container around every payload, and its checksum.

`fedplug.wire` describes the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from fedplug import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    ByteBuffer: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]

__all__ = ["crc32", "frame", "pack_container", "read_container", "unpack_container"]


def pack_container(
    body: ByteBuffer | list[ByteBuffer] | tuple[ByteBuffer, ...],
    wire_id: str,
    dtype: str,
    shape: Sequence[int],
) -> bytes:
    """Puts the container of :mod:`fedplug.wire` around an encoder's bytes.

    Args:
        body: Any C-contiguous buffer, or array of any dtype; its bytes are taken as they lie. Of a list or
            tuple of them, one is written behind the other, without joining them first.
        wire_id: Names the layout of the body; 1 to 64 ASCII characters.
        dtype: Of the tensor that was encoded, by its NumPy name.
        shape: Of the tensor that was encoded; at most 32 dimensions, each below 2**32.

    Raises:
        ArgumentError: ``body``, or what is in it, is no buffer or not C-contiguous.
        PayloadError: The wire id, dtype or shape has no place in the format.
    """
    return _kernels.pack_container(body, wire_id, dtype, list(shape))


def frame(body: ByteBuffer | list[ByteBuffer] | tuple[ByteBuffer, ...], header: bytes) -> bytes:
    """Does what :func:`pack_container` does, with a header that is there already.

    Args:
        body: As for :func:`pack_container`.
        header: From :func:`fedplug.wire.header`; the same for all payloads of one tensor under one encoder.

    Raises:
        ArgumentError: As for :func:`pack_container`.
    """
    return _kernels.frame(body, header)


def unpack_container(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], bytes]:
    """Reads what :func:`pack_container` wrote. Every byte is treated as hostile.

    Args:
        buffer: Any C-contiguous buffer.

    Returns:
        ``(wire_id, dtype, shape, body)``.

    Raises:
        ArgumentError: ``buffer`` is not C-contiguous.
        PayloadError: The buffer is truncated or too long, of another format or version, or its checksum is
            wrong.
    """
    return _kernels.unpack_container(buffer)


def read_container(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], NDArray[np.uint8]]:
    """Reads what :func:`unpack_container` reads, and copies nothing.

    Args:
        buffer: Any C-contiguous buffer, or array. The body returned is a part of it: it keeps the buffer
            alive (a ``bytearray`` cannot be resized meanwhile), and who writes into the buffer later changes
            the body, unnoticed by the checksum.

    Returns:
        ``(wire_id, dtype, shape, body)``; ``body`` is ``[bytes]`` uint8 and read-only.

    Raises:
        ArgumentError: ``buffer`` is no buffer, or not C-contiguous.
        PayloadError: As for :func:`unpack_container`.
    """
    return _kernels.read_container(buffer)


def crc32(data: ByteBuffer) -> int:
    """Computes the CRC-32 of zlib, PNG and Ethernet.

    Args:
        data: Any C-contiguous buffer; its bytes are taken as they lie.

    Returns:
        The checksum, in ``[0, 2**32)``.

    Raises:
        ArgumentError: ``data`` is not C-contiguous.
    """
    return _kernels.crc32(data)
