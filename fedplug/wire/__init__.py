"""The versioned, checksummed container of every payload. Readable without TensorFlow.

docs/wire-format.md specifies the bytes. `frame` and `unframe` write and read a container, by the compiled
core. `header` needs no compiled core, so that graphs can be built without it. `fedplug.wire.message` joins
several payloads.

>>> payload = frame(b"body", "identity/1", "uint8", (4,))
>>> unframe(payload)
Container(wire_id='identity/1', dtype='uint8', shape=(4,), body=b'body')
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedplug.errors import ArgumentError, PayloadError
from fedplug.registry.component import plain

if TYPE_CHECKING:
    from fedplug.types import ByteBuffer

__all__ = [
    "CHECKSUM_BYTES",
    "DTYPE_CODES",
    "MAGIC",
    "MAX_ELEMENTS",
    "MAX_WIRE_ID",
    "VERSION",
    "Container",
    "check_max_bytes",
    "frame",
    "header",
    "require_possible",
    "require_room",
    "unframe",
]

MAGIC = b"FPLG"
VERSION = 1
CHECKSUM_BYTES = 4
DTYPE_CODES = {
    "float32": 1,
    "float64": 2,
    "float16": 3,
    "bfloat16": 4,
    "int8": 5,
    "int16": 6,
    "int32": 7,
    "int64": 8,
    "uint8": 9,
    "uint16": 10,
    "uint32": 11,
    "uint64": 12,
    "bool": 13,
}
MAX_WIRE_ID = 64
MAX_ELEMENTS = 2**31 - 1
"""Maximum number of elements of one array: kernels use 32-bit counts and indices."""

_MAX_RANK = 32
_FIXED = struct.Struct("<4sBBBB")


@dataclass(frozen=True)
class Container:
    """The contents of a payload whose checksum is right.

    Attributes:
        wire_id: The name of the layout of ``body``.
        dtype: The dtype of the tensor that was encoded, by its NumPy name.
        shape: The shape of the tensor that was encoded.
        body: The encoder's bytes.
    """

    wire_id: str
    dtype: str
    shape: tuple[int, ...]
    body: bytes


def require_possible(shape: Sequence[int], itemsize: int) -> None:
    """Checks the shape of an untrusted header. Every reader calls it before it makes an array.

    Raises:
        PayloadError: No array of this item size can have this shape, not even if it is empty.
    """
    if math.prod(filter(None, shape)) * itemsize > sys.maxsize:
        raise PayloadError(f"the payload is of shape {list(shape)}, which no array can have, empty or not")


def check_max_bytes(max_bytes: object) -> int | float:
    """Returns a receiver's limit as a number.

    Raises:
        ArgumentError: It is not a number of at least 0.
    """
    limit = plain(max_bytes)
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not limit >= 0:
        raise ArgumentError(f"max_bytes is {max_bytes!r}; it must be a number of bytes, at least 0")
    return limit


def require_room(nbytes: int, left: float) -> None:
    """Raises PayloadError if an array has more bytes than a receiver's limit leaves."""
    if nbytes > left:
        raise PayloadError(f"it has {nbytes} bytes, and max_bytes leaves {max(left, 0)}; raise max_bytes")


def header(wire_id: str, dtype: str, shape: Sequence[int]) -> bytes:
    """Returns the bytes before the body's length. The same for all payloads of one tensor under one encoder.

    Raises:
        PayloadError: The format does not allow this wire id, dtype or shape.
    """
    encoded_id = wire_id.encode("ascii", errors="replace")
    if not wire_id.isascii() or not 1 <= len(encoded_id) <= MAX_WIRE_ID:
        raise PayloadError(f"wire id {wire_id!r} is not 1 to {MAX_WIRE_ID} ASCII characters")
    if dtype not in DTYPE_CODES:
        raise PayloadError(f"dtype {dtype!r} has no place in a payload; known: {', '.join(DTYPE_CODES)}")
    if len(shape) > _MAX_RANK:
        raise PayloadError(
            f"a tensor of rank {len(shape)} cannot be sent; the format ends at rank {_MAX_RANK}"
        )
    if any(not 0 <= dim < 2**32 for dim in shape):
        raise PayloadError(
            f"shape {tuple(shape)} cannot be sent; every dimension must be known and below 2**32"
        )
    fixed = _FIXED.pack(MAGIC, VERSION, DTYPE_CODES[dtype], len(encoded_id), len(shape))
    return fixed + encoded_id + struct.pack(f"<{len(shape)}I", *shape)


def frame(
    body: ByteBuffer | list[ByteBuffer] | tuple[ByteBuffer, ...],
    wire_id: str,
    dtype: str,
    shape: Sequence[int],
) -> bytes:
    """Returns the container of an encoder's bytes.

    Args:
        body: The bytes, as for `fedplug.kernels.frame`.
        wire_id: The name of the layout of the body; 1 to 64 ASCII characters.
        dtype: The dtype of the tensor that was encoded, by its NumPy name.
        shape: The shape of the tensor that was encoded; at most 32 dimensions, each below 2**32.

    Raises:
        ArgumentError: ``body`` is not a C-contiguous buffer.
        PayloadError: The format does not allow this wire id, dtype or shape.
    """
    import fedplug.kernels as kernels

    return kernels.frame(body, header(wire_id, dtype, shape))


def unframe(buffer: ByteBuffer) -> Container:
    """Reads a container. Every byte is untrusted.

    Raises:
        ArgumentError: ``buffer`` is not a C-contiguous buffer.
        PayloadError: The buffer is truncated or too long, has another format or version, or its checksum is
            wrong.
    """
    import fedplug.kernels as kernels

    wire_id, dtype, shape, body = kernels.unframe(buffer)
    return Container(wire_id, dtype, shape, body.tobytes())
