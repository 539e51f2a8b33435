"""The message of a model: its arrays by name, each with an array's message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedplug.differences.arrays import decode_array, encode_array, read_array_message
from fedplug.errors import ArgumentError, PayloadError
from fedplug.wire.message import Contents, Entry, MessageReader, write

__all__ = ["ArrayDifference", "decode_model", "decode_payloads", "describe", "encode_model", "require_places"]


class ArrayDifference(NamedTuple):
    """One array of a difference between models.

    Attributes:
        name: The name of the array.
        kind: ``"same"``, ``"changed"``, ``"whole"`` (added, or of another size or dtype) or ``"removed"``.
        dtype: The new dtype. Empty if it was removed.
        shape: The new shape. Empty if it was removed.
        nbytes: The size of the new array.
        sent: The size of its payload.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    sent: int


def encode_model(
    old: Mapping[str, NDArray[np.generic]], new: Mapping[str, NDArray[np.generic]]
) -> Iterator[bytes]:
    """Yields the parts of the message that turns one model into the other: its list, and the new arrays.

    Arrays are read one by one, so that mappings may load them when they are asked for.

    Raises:
        ArgumentError: An array cannot be encoded. The message names it.
    """
    entries = [Entry(name, name in old, in_new=True) for name in new]
    entries += [Entry(name, in_old=True, in_new=False) for name in old if name not in new]
    return write(Contents(entries), (_payload(old, new, name) for name in new))


def require_places(
    places: Mapping[str, object], old: Mapping[str, NDArray[np.generic]], message: MessageReader
) -> None:
    """Raises ArgumentError, with the name, for an array that `decode_model` cannot write to.

    Args:
        places: The arrays to write into, by name, for some or all new arrays.
        old: The model that the difference was made from.
        message: The untrusted message.

    Raises:
        PayloadError: The message is invalid.
    """
    for name in _contents(message).sent:
        payload = message.payload()
        if name in places:
            try:
                read_array_message(payload).require_place(places[name], old.get(name))
            except (ArgumentError, PayloadError) as error:
                raise type(error)(f"array {name!r}: {error}") from error


def decode_model(
    old: Mapping[str, NDArray[np.generic]],
    message: MessageReader,
    max_bytes: float,
    places: Mapping[str, NDArray[np.generic]] | None = None,
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Decodes the arrays of the new model, one by one, in the order of the encoder.

    Args:
        old: The model that the difference was made from.
        message: The untrusted message.
        max_bytes: Maximum size of all new arrays together.
        places: Arrays to write into, by name, after `require_places`. The others are new.

    Raises:
        PayloadError: The message is invalid, too large, or made from another model. The error names the
            array. The arrays returned before are then worth nothing.
    """
    contents, given = _contents(message), places or {}
    in_turn = map(given.get, contents.sent)
    return decode_payloads(
        old,
        contents,
        message,
        max_bytes,
        lambda data, base, left: decode_array(data, base, left, next(in_turn)),
    )


def decode_payloads(
    old: Mapping[str, NDArray[np.generic]],
    contents: Contents,
    message: MessageReader,
    max_bytes: float,
    decode: Callable[[object, NDArray[np.generic] | None, float], NDArray[np.generic]],
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Decodes the payloads of a message whose list was read, as `decode_model` does.

    Args:
        old: The model that the receiver has.
        contents: The list.
        message: The message.
        max_bytes: Maximum size of all decoded arrays together.
        decode: A function of a payload, the array in the old model or None, and the bytes that are left.

    Raises:
        PayloadError: See `decode_model`.
    """
    _require_base(contents, old)
    for entry in contents.entries:
        if not entry.in_new:
            continue
        try:
            array = decode(message.payload(), old[entry.name] if entry.in_old else None, max_bytes)
        except PayloadError as error:
            raise PayloadError(f"array {entry.name!r}: {error}") from error
        max_bytes = max_bytes - array.nbytes
        yield entry.name, array
    message.finish()


def describe(message: MessageReader) -> list[ArrayDifference]:
    """Reads the contents of an untrusted message of a model. Codes are not decoded.

    Raises:
        PayloadError: The message is invalid.
    """
    changes = []
    for entry in _contents(message).entries:
        if not entry.in_new:
            changes.append(ArrayDifference(entry.name, "removed", "", (), 0, 0))
            continue
        payload = message.payload()
        found = read_array_message(payload)
        kind = "whole" if found.base is None else "same" if found.base == found.result else "changed"
        changes.append(
            ArrayDifference(entry.name, kind, str(found.dtype), found.shape, found.nbytes, len(payload))
        )
    message.finish()
    return changes


def _payload(
    old: Mapping[str, NDArray[np.generic]], new: Mapping[str, NDArray[np.generic]], name: str
) -> bytes:
    try:
        return encode_array(old.get(name), new[name])
    except (ArgumentError, PayloadError) as error:
        raise ArgumentError(f"array {name!r}: {error}") from error


def _contents(message: MessageReader) -> Contents:
    contents = message.contents()
    if contents.version is not None:
        raise PayloadError("the message is of a Broadcaster; pass it to fedplug.Receiver.apply")
    return contents


def _require_base(contents: Contents, old: Mapping[str, object]) -> None:
    expected = {entry.name for entry in contents.entries if entry.in_old}
    missing = sorted(expected - old.keys())[:5]
    extra = sorted(old.keys() - expected)[:5] if contents.base is None else []
    if missing or extra:
        raise PayloadError(
            "the base is not the model that the message was made from: "
            f"it lacks the arrays {missing}, and has the others {extra}"
        )
