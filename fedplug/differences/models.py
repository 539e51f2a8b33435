"""The message of a model: a container that lists the arrays, then an array's message for each new one."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from fedplug import kernels, wire
from fedplug.differences.arrays import encode_array, read_array_message
from fedplug.differences.containers import ContainerReader
from fedplug.errors import ArgumentError, PayloadError

__all__ = ["WIRE_ID", "Entry", "decode_model", "encode_model", "read_entries"]

WIRE_ID = "diff-model/1"

_IN_OLD, _IN_NEW = 1, 2
_FIXED = struct.Struct("<BI")
"""The versions that have an array, and the length of its name."""


class Entry(NamedTuple):
    """An array of a model, by name, and whether the old and the new version have it."""

    name: str
    in_old: bool
    in_new: bool


def encode_model(old: Mapping[str, NDArray[Any]], new: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    """Returns the parts of the message that turns one model into the other.

    Arrays are read one by one, so that mappings may load them when they are asked for.

    Raises:
        ArgumentError: An array cannot be encoded; the message names it.
    """
    entries = [Entry(name, name in old, in_new=True) for name in new]
    entries += [Entry(name, in_old=True, in_new=False) for name in old if name not in new]
    yield wire.frame(b"".join(map(_packed, entries)), WIRE_ID, "uint8", (len(entries),))
    for entry in entries:
        if entry.in_new:
            before = old[entry.name] if entry.in_old else None
            try:
                yield encode_array(before, new[entry.name])
            except (ArgumentError, PayloadError) as error:
                raise ArgumentError(f"array {entry.name!r}: {error}") from error


def decode_model(
    old: Mapping[str, NDArray[Any]], messages: ContainerReader, max_bytes: float
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Decodes the arrays of the new model, one by one, in the order of the encoder.

    Args:
        old: The model that the difference was made from.
        messages: The untrusted message.
        max_bytes: Maximum size of all new arrays together.

    Raises:
        PayloadError: The message is invalid, too large, or made from another model; the error names the
            array. What was returned before is then worth nothing.
    """
    entries = read_entries(messages.next())
    _require_base({entry.name for entry in entries if entry.in_old}, old)
    for entry in entries:
        if not entry.in_new:
            continue
        try:
            message = read_array_message(messages.next())
            if message.nbytes > max_bytes:
                raise PayloadError(
                    f"it has {message.nbytes} bytes, and max_bytes leaves {max_bytes}; raise max_bytes"
                )
            array = message.apply(old[entry.name] if entry.in_old else None)
        except PayloadError as error:
            raise PayloadError(f"array {entry.name!r}: {error}") from error
        max_bytes = max_bytes - message.nbytes
        yield entry.name, array
    messages.finish()


def read_entries(payload: bytes) -> list[Entry]:
    """Reads the list of a model's arrays from an untrusted container.

    Raises:
        PayloadError: It is not such a list.
    """
    wire_id, _, shape, body = kernels.unframe(payload)
    if wire_id != WIRE_ID:
        raise PayloadError(
            f"the payload has the wire id {wire_id!r}; a difference of a model has {WIRE_ID!r}"
        )
    entries = list(_unpacked(body.tobytes()))
    if shape != (len(entries),) or len({entry.name for entry in entries}) < len(entries):
        raise PayloadError("the list of arrays has another length than it says, or a name twice")
    return entries


def _packed(entry: Entry) -> bytes:
    name = entry.name.encode()
    return _FIXED.pack(_IN_OLD * entry.in_old | _IN_NEW * entry.in_new, len(name)) + name


def _unpacked(body: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(body):
        try:
            flags, length = _FIXED.unpack_from(body, at)
            at += _FIXED.size + length
            name = body[at - length : at].decode()
        except (struct.error, UnicodeDecodeError) as error:
            raise PayloadError(f"the list of arrays cannot be read: {error}") from error
        if at > len(body) or flags not in (_IN_OLD, _IN_NEW, _IN_OLD | _IN_NEW):
            raise PayloadError("the list of arrays is truncated, or has an array of no version")
        yield Entry(name, bool(flags & _IN_OLD), bool(flags & _IN_NEW))


def _require_base(expected: set[str], names: Iterable[str]) -> None:
    found = set(names)
    if found != expected:
        missing, extra = sorted(expected - found)[:5], sorted(found - expected)[:5]
        raise PayloadError(
            "the base is not the model that the difference was made from: "
            f"it lacks the arrays {missing}, and has the others {extra}"
        )
