"""The container around payloads and its checksum. `fedplug.wire` describes the layout."""

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
    """Writes the container of :mod:`fedplug.wire` around the bytes of an encoder.

    Args:
        body: A C-contiguous buffer, or an array of any dtype, whose bytes are copied; or a list or tuple of
            them, which are written one after the other.
        wire_id: The name of the body's layout; 1 to 64 ASCII characters.
        dtype: The NumPy name of the encoded tensor's dtype.
        shape: The shape of the encoded tensor; at most 32 dimensions, each below 2**32.

    Raises:
        ArgumentError: ``body`` or one of its parts is not a C-contiguous buffer.
        PayloadError: The format cannot hold the wire id, dtype or shape.
    """
    return _kernels.pack_container(body, wire_id, dtype, list(shape))


def frame(body: ByteBuffer | list[ByteBuffer] | tuple[ByteBuffer, ...], header: bytes) -> bytes:
    """Writes a container as :func:`pack_container` does, with an existing header.

    Args:
        body: See :func:`pack_container`.
        header: The result of :func:`fedplug.wire.header`; equal for all payloads of one tensor and encoder.

    Raises:
        ArgumentError: ``body`` or one of its parts is not a C-contiguous buffer.
    """
    return _kernels.frame(body, header)


def unpack_container(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], bytes]:
    """Reads a container from untrusted bytes.

    Args:
        buffer: A C-contiguous buffer.

    Returns:
        ``(wire_id, dtype, shape, body)``.

    Raises:
        ArgumentError: ``buffer`` is not C-contiguous.
        PayloadError: The buffer is too short or too long, has another format or version, or a wrong checksum.
    """
    return _kernels.unpack_container(buffer)


def read_container(buffer: ByteBuffer) -> tuple[str, str, tuple[int, ...], NDArray[np.uint8]]:
    """Reads a container as :func:`unpack_container` does, without copying the body.

    Args:
        buffer: A C-contiguous buffer or array. The returned body is a part of it and keeps it alive; a
            ``bytearray`` cannot be resized meanwhile. A later write to the buffer changes the body, which the
            checksum does not notice.

    Returns:
        ``(wire_id, dtype, shape, body)``; ``body`` is ``[bytes]`` uint8 and read-only.

    Raises:
        ArgumentError: ``buffer`` is not a C-contiguous buffer.
        PayloadError: See :func:`unpack_container`.
    """
    return _kernels.read_container(buffer)


def crc32(data: ByteBuffer) -> int:
    """Computes the CRC-32 of zlib, PNG and Ethernet.

    Args:
        data: A C-contiguous buffer.

    Returns:
        The checksum, in ``[0, 2**32)``.

    Raises:
        ArgumentError: ``data`` is not C-contiguous.
    """
    return _kernels.crc32(data)
