"""Numbers of one to eight bits, and single bits, packed without gaps, and read from bytes nobody vouches for.

How they are packed is in `fedplug.ops.bits`. Must not know what they mean.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug.encoders.checks import of_length, require
from fedplug.ops import bits as packed_bits
from fedplug.ops.bits import pack, packed_size

__all__ = ["pack", "packed_size", "unpack"]


def unpack(data: tf.Tensor, count: tf.Tensor | int, bits: int, what: str) -> tf.Tensor:
    """The inverse of `pack`, for bytes that nobody vouches for.

    Args:
        data: uint8 vector.
        count: How many numbers there must be.
        bits: Of each number, 1 to 8.
        what: Names the bytes in an error.

    Raises:
        tf.errors.InvalidArgumentError: Not ``packed_size(count, bits)`` bytes, or unused bits are set.
    """
    codes = packed_bits.unpack(of_length(data, packed_size(count, bits), what), bits)
    with require(tf.reduce_all(codes[count:] == 0), f"{what} have unused bits that are set"):
        return tf.identity(codes[:count])
