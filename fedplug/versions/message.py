"""The message that brings a receiver to a version of a model.

Layout, all integers little-endian and unsigned:

====== ========== =====================================================
offset size       field
====== ========== =====================================================
0      4          magic, the bytes ``FPLV``
4      1          format version, 1
5      1          kind, see `Kind`
6      8          the version that the receiver must have; zeros if none
14     8          the version that it has afterwards
22     4          number of arrays
26     ...        for each array: the length of its name (2 bytes), the
                  length of its payload (8 bytes), name, payload
...    4          CRC-32 (as in zlib) of everything before it
====== ========== =====================================================

A snapshot names all arrays of the model, in order; changes name only the arrays that have changed. A payload
is a container of `fedplug.wire`: the encoded array, its changed entries ("changes/1+..."), or an exact
difference ("diff/1").
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedplug import kernels
from fedplug.errors import ArgumentError, PayloadError
from fedplug.versions.checksum import VERSION_BYTES

__all__ = ["Kind", "Message", "read", "write"]

_MAGIC = b"FPLV"
_FORMAT = 1
_HEAD = struct.Struct(f"<4sBB{VERSION_BYTES}s{VERSION_BYTES}sI")
_ARRAY = struct.Struct("<HQ")
_CHECKSUM = struct.Struct("<I")


class Kind(enum.IntEnum):
    """The contents of a message: nothing new, the changes, or the whole model."""

    SAME = 0
    CHANGES = 1
    SNAPSHOT = 2


@dataclass(frozen=True)
class Message:
    """The contents of a message.

    Attributes:
        kind: The kind of its contents.
        base: The version that the receiver must have; None for a snapshot.
        version: The version that it has afterwards.
        payloads: The payloads by name.
    """

    kind: Kind
    base: str | None
    version: str
    payloads: Mapping[str, bytes | memoryview]


def write(message: Message) -> bytes:
    """Returns the bytes of a message."""
    base = bytes(VERSION_BYTES) if message.base is None else bytes.fromhex(message.base)
    version = bytes.fromhex(message.version)
    parts: list[Any] = [_HEAD.pack(_MAGIC, _FORMAT, message.kind, base, version, len(message.payloads))]
    for name, payload in message.payloads.items():
        text = name.encode()
        parts += [_ARRAY.pack(len(text), len(payload)), text, payload]
    body = b"".join(parts)
    return body + _CHECKSUM.pack(kernels.crc32(body))


def read(data: Any) -> Message:
    """Reads a message without copying payloads; every byte is untrusted.

    Raises:
        PayloadError: `write` returns no such bytes.
        ArgumentError: ``data`` is not a buffer.
    """
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"a message is bytes or a C-contiguous buffer: {error}") from error
    if len(view) < _HEAD.size + _CHECKSUM.size or view[:4] != _MAGIC:
        raise PayloadError("the bytes are not a message with a version of a model")
    body = view[: -_CHECKSUM.size]
    if _CHECKSUM.unpack(view[-_CHECKSUM.size :])[0] != kernels.crc32(body):
        raise PayloadError("the message is damaged or truncated: its checksum is wrong")
    _, form, kind, base, version, number = _HEAD.unpack_from(body)
    if form != _FORMAT or kind not in {*Kind}:
        raise PayloadError(f"the message has format {form} and kind {kind}; this version of fedplug reads 1")
    try:
        payloads, end = _read_payloads(body, number)
    except (struct.error, UnicodeDecodeError) as error:
        raise PayloadError(f"the message cannot be read: {error}") from error
    if end != len(body):
        raise PayloadError(f"the message has {len(body) - end} bytes after its last array")
    known = None if kind == Kind.SNAPSHOT else base.hex()
    return Message(Kind(kind), known, version.hex(), payloads)


def _read_payloads(body: memoryview, number: int) -> tuple[dict[str, memoryview], int]:
    """Returns the payloads by name, and where they end."""
    payloads: dict[str, memoryview] = {}
    place = _HEAD.size
    for _ in range(number):
        name_bytes, length = _ARRAY.unpack_from(body, place)
        begin = place + _ARRAY.size + name_bytes
        place = begin + length
        if place > len(body):
            raise PayloadError("the message ends in the middle of an array")
        name = bytes(body[begin - name_bytes : begin]).decode()
        if name in payloads:
            raise PayloadError(f"the message names array {name!r} twice")
        payloads[name] = body[begin:place]
    return payloads, place
