"""Bytes of base-3 digits, and the digits by themselves: 2 bits each, packed."""

from __future__ import annotations

from fedplug import ops
from fedplug.ops.types import Array

__all__ = ["TRIT_BITS", "joined_trits", "split_trits"]

TRIT_BITS = 2


def split_trits(data: Array, number: Array | int, trits: int) -> Array:
    """Returns the digits of ``number`` bytes, the lowest of each first; packed, a uint8 vector."""
    symbols = ops.astype(ops.unpack(data, number, 8, "the symbols of a quantizer"), "int32")
    digits = ops.stack([symbols // 3**place % 3 for place in range(trits)], axis=1)
    return ops.pack(ops.astype(ops.reshape(digits, [-1]), "uint8"), TRIT_BITS)


def joined_trits(packed: Array, number: Array | int, trits: int) -> Array:
    """Returns the bytes of untrusted digits: the inverse of `split_trits`; uint8 vector ``[number]``.

    Raises:
        tf.errors.InvalidArgumentError: The number of digits is wrong, or one is not a base-3 digit.
    """
    digits = ops.unpack(packed, number * trits, TRIT_BITS, "the digits of symbols")
    with ops.require(ops.all(digits < 3), "a digit of base 3 is 3"):
        rows = ops.astype(ops.reshape(digits, [-1, trits]), "int32")
    return ops.astype(ops.add_n([rows[:, place] * 3**place for place in range(trits)]), "uint8")
