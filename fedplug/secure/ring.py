"""Integers of a ring of ``2^bits`` as bytes, and several of them in one wide integer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, PayloadError

__all__ = ["join_lanes", "pack", "split_lanes", "unpack"]

_MOST_BITS = 62


def pack(vector: Any, bits: int) -> bytes:
    """Packs integers from 0 to ``2^bits - 1`` into ``ceil(n * bits / 8)`` bytes, the lowest bit first.

    >>> pack([1, 2, 3], 4).hex()
    '2103'

    Raises:
        ArgumentError: An integer is out of range, or bits is not 1 to 62.
    """
    numbers = np.asarray(vector, np.int64).reshape(-1)
    places = _places(bits)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < 2**bits):
        raise ArgumentError(f"integers from 0 to 2^{bits} - 1 can be packed; take them modulo 2^{bits}")
    return np.packbits((numbers[:, np.newaxis] >> places & 1).astype(np.uint8), bitorder="little").tobytes()


def unpack(data: bytes, count: int, bits: int) -> NDArray[np.int64]:
    """Unpacks ``count`` integers from the untrusted bytes of `pack`.

    Raises:
        ArgumentError: bits is not 1 to 62.
        PayloadError: The number of bytes is wrong, or unused bits are set.
    """
    places = _places(bits)
    expected = (count * bits + 7) // 8
    if len(data) != expected:
        raise PayloadError(f"{count} integers of {bits} bits take {expected} bytes, not {len(data)}")
    found = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if found[count * bits :].any():
        raise PayloadError(f"unused bits after {count} integers of {bits} bits are set")
    return np.asarray((found[: count * bits].reshape(count, bits).astype(np.int64) << places).sum(axis=1))


def join_lanes(signed: Any, bits: int, lanes: int) -> NDArray[np.int64]:
    """Puts ``lanes`` signed integers into each integer of a ring of ``2^(lanes * bits)``.

    A sum of such integers, modulo 2^(lanes * bits), holds the sums of the signed integers while those stay in
    the range from ``-2^(bits - 1)`` to ``2^(bits - 1) - 1``. Zeros fill the last integer.

    >>> total = join_lanes([1, -2, 3], bits=15, lanes=2) + join_lanes([-5, 1, 1], bits=15, lanes=2)
    >>> split_lanes(total, bits=15, lanes=2, count=3)
    array([-4, -1,  4])

    Raises:
        ArgumentError: Lanes of that many bits do not fit into 62 bits, or an integer is out of range.
    """
    _places(bits * lanes)
    numbers = np.asarray(signed, np.int64).reshape(-1)
    if numbers.size and max(numbers.max(), -1 - numbers.min()) >= 2 ** (bits - 1):
        raise ArgumentError(f"an integer does not fit into a lane of {bits} bits")
    padded = np.pad(numbers, (0, -numbers.size % lanes)).reshape(-1, lanes)
    return np.asarray((padded << bits * np.arange(lanes)).sum(axis=1) % 2 ** (bits * lanes))


def split_lanes(total: Any, bits: int, lanes: int, count: int) -> NDArray[np.int64]:
    """Returns the ``count`` signed sums in a sum of what `join_lanes` returned.

    Raises:
        ArgumentError: The number of integers is not that of ``count`` sums.
    """
    _places(bits * lanes)
    rest = np.asarray(total, np.int64).reshape(-1)
    if rest.size != -(-count // lanes):
        raise ArgumentError(
            f"{count} sums in lanes of {lanes} take {-(-count // lanes)} integers, not {rest.size}"
        )
    half, sums = 2 ** (bits - 1), []
    for _ in range(lanes):
        sums.append((rest + half) % (2 * half) - half)
        rest = (rest - sums[-1]) >> bits
    return np.asarray(np.stack(sums, axis=1).reshape(-1)[:count])


def _places(bits: int) -> NDArray[np.int64]:
    if not 1 <= bits <= _MOST_BITS:
        raise ArgumentError(f"integers of {bits} bits do not fit into int64; use 1 to {_MOST_BITS} bits")
    return np.arange(bits)
