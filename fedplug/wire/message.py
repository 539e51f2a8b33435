"""Named payloads as one message: a list of arrays, then a container for each payload.

docs/wire-format.md has the layout. Programs that know the arrays and their order leave out the list. A
payload that the message has already, such as that of tied weights, is sent as a reference to it.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.errors import ArgumentError, PayloadError
from fedplug.kernels.foreign import require_names
from fedplug.wire import CHECKSUM_BYTES, MAGIC, VERSION, frame

__all__ = ["Contents", "Entry", "MessageReader", "version_of", "write", "write_payloads"]

_VERSION_BYTES = 8

_LIST = "model/1"
_REFERENCE = "same/1"
_VERSIONS = struct.Struct(f"<{_VERSION_BYTES}s{_VERSION_BYTES}s")
_ENTRY = struct.Struct("<BH")
_IN_OLD, _IN_NEW = 1, 2
_PLACE = struct.Struct("<I")
_PREFIX = 8
"""Offset of the wire id in a container. Its length and the rank are the two bytes before it."""


class Entry(NamedTuple):
    """An array that a message names, and whether the old and the new version of the model have it."""

    name: str
    in_old: bool
    in_new: bool


class Contents(NamedTuple):
    """The list at the beginning of a message.

    Attributes:
        entries: The arrays. The payloads of those in the new version follow in this order.
        base: The version that the receiver must have. Its other arrays stay as they are. None: the message
            names all arrays.
        version: The version that the receiver has afterwards. None for `fedplug.patch`.
    """

    entries: Sequence[Entry]
    base: str | None = None
    version: str | None = None

    @property
    def sent(self) -> list[str]:
        """The names of the payloads."""
        return [entry.name for entry in self.entries if entry.in_new]

    @property
    def kind(self) -> str:
        """The kind of a version's message: ``"snapshot"``, ``"changes"`` or ``"same"``."""
        if self.base is None:
            return "snapshot"
        return "same" if self.base == self.version else "changes"


def version_of(model: Mapping[str, NDArray[np.generic]]) -> str:
    """Returns the version of a model: 16 hexadecimal digits that follow from its arrays.

    Two models have the same version if they have the same names in the same order, and the same dtypes,
    shapes and bits. Different models have different versions with a probability of 1 - 2^-32 or more: it
    detects mistakes, and does not stop somebody who searches for two models with one version.

    Args:
        model: C-contiguous arrays by name.
    """
    digest = hashlib.blake2b(digest_size=_VERSION_BYTES)
    for name, array in model.items():
        bits = kernels.crc32(array.reshape(-1).view(np.uint8))
        digest.update(f"{len(name.encode())} {name} {array.dtype.name} {array.shape} {bits:08x}\n".encode())
    return digest.hexdigest()


def write(contents: Contents, payloads: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the parts of a message: the list, then each payload when it is made.

    Raises:
        ArgumentError: The name of an array cannot be sent.
    """
    require_names(entry.name for entry in contents.entries)
    versions = (bytes.fromhex(version or "") for version in (contents.base, contents.version))
    body = b"".join([_VERSIONS.pack(*versions), *map(_packed, contents.entries)])
    yield frame(body, _LIST, "uint8", (len(contents.entries),))
    yield from write_payloads(payloads)


def write_payloads(payloads: Iterable[bytes]) -> Iterator[bytes]:
    """Yields payloads, and a reference for each one that there has been already."""
    places: dict[tuple[int, int], int] = {}
    for place, payload in enumerate(payloads):
        # Hashes of 64 bits, because a file's payloads are not kept. A digest would take 6 times as long.
        first = places.setdefault((len(payload), hash(payload)), place)
        yield payload if first == place else frame(_PLACE.pack(first), _REFERENCE, "uint8", ())


class MessageReader:
    """Reads an untrusted message, part by part, in memory or in a file.

    Nothing is allocated for bytes that the message does not have. `fedplug.kernels.unframe` checks a payload.
    """

    def __init__(self, data: Any) -> None:
        """Takes a C-contiguous buffer or an open file.

        Raises:
            ArgumentError: ``data`` is neither.
        """
        self._file = data if isinstance(data, io.BufferedReader) else None
        try:
            self._view = memoryview(b"" if self._file else data).cast("B")
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"a message is bytes or a C-contiguous buffer: {error}") from error
        self._size = os.fstat(self._file.fileno()).st_size if self._file else len(self._view)
        self._at = 0
        self._places: list[tuple[int, int] | None] = []

    def contents(self) -> Contents:
        """Reads the list, with which a message begins.

        Raises:
            PayloadError: There is no valid list.
        """
        wire_id, _, shape, body = kernels.unframe(self._next())
        if wire_id != _LIST:
            raise PayloadError(f"the payload has the wire id {wire_id!r}; a message of a model has {_LIST!r}")
        try:
            contents = _unpacked(body.tobytes())
        except (struct.error, UnicodeDecodeError) as error:
            raise PayloadError(f"the list of arrays cannot be read: {error}") from error
        number = len(contents.entries)
        if shape != (number,) or len({entry.name for entry in contents.entries}) < number:
            raise PayloadError("the list of arrays has another length than it says, or a name twice")
        return contents

    def payload(self) -> bytes | memoryview:
        """Returns the bytes of the next payload, which are not checked.

        Raises:
            PayloadError: The message ends before it, or has a reference to nothing.
        """
        begin = self._at
        container = self._next()
        if bytes(container[_PREFIX : _PREFIX + container[6]]) != _REFERENCE.encode():
            self._places.append((begin, self._at))
            return container
        _, _, shape, body = kernels.unframe(container)
        place = int.from_bytes(body.tobytes(), "little")
        found = self._places[place] if place < len(self._places) else None
        if shape != () or body.size != _PLACE.size or found is None:
            raise PayloadError(
                f"payload {len(self._places)} refers to payload {place}, which is not before it"
            )
        self._places.append(None)
        return self._part(*found)

    def payloads(self, names: Iterable[str]) -> dict[str, bytes | memoryview]:
        """Reads the payloads of the arrays with these names, with which the message ends.

        Raises:
            PayloadError: See `payload` and `finish`. The error names the array.
        """
        found = {}
        for name in names:
            try:
                found[name] = self.payload()
            except PayloadError as error:
                raise PayloadError(f"array {name!r}: {error}") from error
        self.finish()
        return found

    def finish(self) -> None:
        """Raises PayloadError if bytes are left."""
        if self._at != self._size:
            raise PayloadError(f"{self._size - self._at} bytes follow the end of the message")

    def _next(self) -> bytes | memoryview:
        """Returns the next container."""
        begin = self._at
        prefix = self._part(begin, begin + _PREFIX)
        if prefix[:4] != MAGIC or prefix[4] != VERSION:
            raise PayloadError(f"no container of version {VERSION} begins with {bytes(prefix)!r}")
        body = begin + _PREFIX + prefix[6] + 4 * prefix[7] + 8
        (length,) = struct.unpack("<Q", self._part(body - 8, body))
        self._at = body + length + CHECKSUM_BYTES
        return self._part(begin, self._at)

    def _part(self, begin: int, end: int) -> bytes | memoryview:
        if end > self._size:
            raise PayloadError(
                f"the message is truncated after {len(self._places)} payloads: {end - self._size} bytes are "
                "missing"
            )
        if self._file is None:
            return self._view[begin:end]
        self._file.seek(begin)
        read = self._file.read(end - begin)
        if len(read) < end - begin:
            raise PayloadError("the message became shorter while it was read")
        return read


def _packed(entry: Entry) -> bytes:
    name = entry.name.encode()
    return _ENTRY.pack(_IN_OLD * entry.in_old | _IN_NEW * entry.in_new, len(name)) + name


def _unpacked(body: bytes) -> Contents:
    base, version = (each.hex() if any(each) else None for each in _VERSIONS.unpack_from(body))
    entries, at = [], _VERSIONS.size
    while at < len(body):
        flags, length = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size + length
        if at > len(body) or flags not in (_IN_OLD, _IN_NEW, _IN_OLD | _IN_NEW):
            raise PayloadError("the list of arrays is truncated, or has an array of no version")
        entries.append(Entry(body[at - length : at].decode(), bool(flags & _IN_OLD), bool(flags & _IN_NEW)))
    return Contents(entries, base, version)
