"""Bytes that hold digits of base 3, and the digits by themselves: 2 bits each, packed.

Must not know what they stand for.
"""

from __future__ import annotations

from fedplug import ops
from fedplug.ops.types import Array

__all__ = ["TRIT_BITS", "joined_trits", "split_trits"]

TRIT_BITS = 2


def split_trits(data: Array, number: Array | int, trits: int) -> Array:
    """The digits of ``number`` bytes, the lowest of each first; packed, uint8 vector."""
    symbols = ops.astype(ops.unpack(data, number, 8, "the symbols of a quantizer"), "int32")
    digits = ops.stack([symbols // 3**place % 3 for place in range(trits)], axis=1)
    return ops.pack(ops.astype(ops.reshape(digits, [-1]), "uint8"), TRIT_BITS)


def joined_trits(packed: Array, number: Array | int, trits: int) -> Array:
    """The inverse of `split_trits`, for untrusted bytes; uint8 vector ``[number]``.

    Raises:
        tf.errors.InvalidArgumentError: They are not so many digits, or one is no digit of base 3.
    """
    digits = ops.unpack(packed, number * trits, TRIT_BITS, "the digits of symbols")
    with ops.require(ops.all(digits < 3), "a digit of base 3 is 3"):
        rows = ops.astype(ops.reshape(digits, [-1, trits]), "int32")
    return ops.astype(ops.add_n([rows[:, place] * 3**place for place in range(trits)]), "uint8")
