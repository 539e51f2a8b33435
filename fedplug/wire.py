"""The versioned, checksummed container in which every payload travels; readable without TensorFlow.

Layout, all integers little-endian and unsigned:

====== ========== =====================================================
offset size       field
====== ========== =====================================================
0      4          magic, the bytes ``FPLG``
4      1          format version, 1
5      1          dtype code, see `DTYPE_CODES`
6      1          w, the length of the wire id; 1 to 32
7      1          r, the rank of the tensor; 0 to 32
8      w          wire id, ASCII: names the layout of the body
8+w    4*r        dimensions of the tensor
...    8          length of the body in bytes
...    that many  body
...    4          CRC-32 (as in zlib) of everything before it
====== ========== =====================================================

Must not import TensorFlow, NumPy or the compiled core: another program should be able to copy the idea from
here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from fedplug.errors import PayloadError

__all__ = [
    "CHECKSUM_BYTES",
    "DTYPE_CODES",
    "MAGIC",
    "MAX_WIRE_ID",
    "VERSION",
    "Container",
    "header",
    "pack",
    "unpack",
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
_DTYPE_NAMES = {code: name for name, code in DTYPE_CODES.items()}
MAX_WIRE_ID = 32
_MAX_RANK = 32
_FIXED = struct.Struct("<4sBBBB")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True)
class Container:
    """A payload whose checksum was right.

    Attributes:
        wire_id: Names the layout of ``body``.
        dtype: Of the tensor that was encoded, by its NumPy name.
        shape: Of the tensor that was encoded.
        body: The encoder's bytes.
    """

    wire_id: str
    dtype: str
    shape: tuple[int, ...]
    body: bytes


def header(wire_id: str, dtype: str, shape: Sequence[int]) -> bytes:
    """The bytes before the body's length; the same for every payload of one tensor under one encoder.

    Raises:
        PayloadError: The wire id, dtype or shape has no place in the format.
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


def pack(body: bytes, wire_id: str, dtype: str, shape: Sequence[int]) -> bytes:
    """A whole container around ``body``.

    Raises:
        PayloadError: As for `header`.
    """
    content = header(wire_id, dtype, shape) + _LENGTH.pack(len(body)) + body
    return content + _CHECKSUM.pack(zlib.crc32(content))


def unpack(buffer: bytes) -> Container:
    """Reads a container; every byte is treated as hostile.

    Raises:
        PayloadError: The buffer is truncated or too long, of another format or version, or its checksum is
            wrong.
    """
    if len(buffer) < _FIXED.size:
        raise PayloadError(
            f"a payload of {len(buffer)} bytes is truncated; its header alone takes {_FIXED.size}"
        )
    magic, version, dtype_code, id_length, rank = _FIXED.unpack_from(buffer)
    if magic != MAGIC:
        raise PayloadError(f"not a fedplug payload: it starts with {magic!r} instead of {MAGIC!r}")
    if version != VERSION:
        raise PayloadError(f"payload format {version} is not known here; this fedplug reads format {VERSION}")
    if not 1 <= id_length <= MAX_WIRE_ID or rank > _MAX_RANK:
        raise PayloadError(f"payload header is corrupt: wire id of {id_length} characters, rank {rank}")
    body_at = _FIXED.size + id_length + 4 * rank + _LENGTH.size
    if len(buffer) < body_at + CHECKSUM_BYTES:
        raise PayloadError(f"a payload of {len(buffer)} bytes is truncated; its header announces more")
    (length,) = _LENGTH.unpack_from(buffer, body_at - _LENGTH.size)
    if len(buffer) != body_at + length + CHECKSUM_BYTES:
        raise PayloadError(
            f"a payload of {len(buffer)} bytes does not have the length its header announces, "
            f"{body_at + length + CHECKSUM_BYTES}"
        )
    (checksum,) = _CHECKSUM.unpack_from(buffer, body_at + length)
    if checksum != zlib.crc32(buffer[: body_at + length]):
        raise PayloadError("payload checksum is wrong: the bytes were changed on the way")
    if dtype_code not in _DTYPE_NAMES:
        raise PayloadError(f"payload dtype code {dtype_code} is not known here")
    try:
        wire_id = buffer[_FIXED.size : _FIXED.size + id_length].decode("ascii")
    except UnicodeDecodeError as error:
        raise PayloadError("payload wire id is not ASCII") from error
    shape = struct.unpack_from(f"<{rank}I", buffer, _FIXED.size + id_length)
    return Container(wire_id, _DTYPE_NAMES[dtype_code], shape, buffer[body_at : body_at + length])
