"""Integers of a ring of ``2^bits`` as bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, PayloadError

__all__ = ["pack", "unpack"]

_MOST_BITS = 62


def pack(vector: object, bits: int) -> bytes:
    """Packs integers from 0 to ``2^bits - 1`` into ``ceil(n * bits / 8)`` bytes, the lowest bit first.

    >>> pack([1, 2, 3], 4).hex()
    '2103'

    Raises:
        ArgumentError: A number is not an integer or is out of range, or bits is not 1 to 62.
    """
    _require_bits(bits)
    numbers = np.asarray(vector).reshape(-1)
    if numbers.size:
        if numbers.dtype.kind not in "iu":
            raise ArgumentError(
                f"vector has {numbers.dtype} values; pack takes integers, so round them first"
            )
        if not (numbers.min() >= 0 and numbers.max() < 2**bits):
            raise ArgumentError(
                f"vector has integers from {numbers.min()} to {numbers.max()}; pack takes those from 0 to "
                f"2^{bits} - 1, so take them modulo 2^{bits}"
            )
    octets = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)
    numbers_bits = np.unpackbits(octets, axis=1, count=bits, bitorder="little")
    return np.packbits(numbers_bits, bitorder="little").tobytes()


def unpack(data: bytes, count: int, bits: int) -> NDArray[np.int64]:
    """Unpacks ``count`` integers from the untrusted bytes of `pack`.

    Raises:
        ArgumentError: bits is not 1 to 62.
        PayloadError: The number of bytes is wrong, or unused bits are set.
    """
    _require_bits(bits)
    expected = (count * bits + 7) // 8
    if len(data) != expected:
        raise PayloadError(f"{count} integers of {bits} bits take {expected} bytes, not {len(data)}")
    found = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if found[count * bits :].any():
        raise PayloadError(f"unused bits after {count} integers of {bits} bits are set")
    octets = np.packbits(found[: count * bits].reshape(count, bits), axis=1, bitorder="little")
    wide = np.pad(octets, ((0, 0), (0, 8 - octets.shape[1])))
    return wide.view("<i8").reshape(-1).astype(np.int64)


def _require_bits(bits: int) -> None:
    if not 1 <= bits <= _MOST_BITS:
        raise ArgumentError(f"integers of {bits} bits do not fit into int64; use 1 to {_MOST_BITS} bits")
