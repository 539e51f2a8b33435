"""The reference of `fedplug.ops.serialization`: the CRC-32 of zlib in stock TensorFlow ops.

It has no loop over bytes. A CRC register is a vector of 32 bits, and processing one word of 32 message bits
is linear over GF(2): ``register' = A (register + word)``. The register after the words ``w_1 .. w_m`` is the
sum of ``A^(m+1-i) w_i``. That sum is folded pairwise: a step adds ``A^(2^step)`` times each even row to the
odd row after it, which halves the number of rows. Source: Warren, "Hacker's Delight", 2nd ed., chapter 14.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["crc32"]

_POLYNOMIAL = 0xEDB88320
_PREFIX = (0x62, 0xF5, 0x26, 0x92)
"""The four bytes that take a register of zeros to the ones with which zlib begins."""


@traced_once
def crc32(data: tf.Tensor) -> tf.Tensor:
    words = _words(tf.concat([tf.constant(_PREFIX, tf.uint8), data], 0))
    step = tf.constant(_word_step())

    def fold(rows: tf.Tensor, power: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = tf.pad(rows, [[tf.shape(rows)[0] % 2, 0], [0, 0]])
        return _gf2(rows[0::2] @ power + rows[1::2]), _gf2(power @ power)

    rows, _ = tf.while_loop(
        lambda rows, _: tf.shape(rows)[0] > 1,
        fold,
        (words, step),
        shape_invariants=(tf.TensorShape([None, 32]), tf.TensorShape([32, 32])),
    )
    register = tf.cast(_gf2(rows @ step), tf.int64)[0]
    return tf.cast(tf.reduce_sum((1 - register) * [1 << i for i in range(32)]), tf.uint32)


def _words(data: tf.Tensor) -> tf.Tensor:
    """One row of 32 bits for every 4 bytes. The leading zeros leave a register of zeros unchanged."""
    filled = tf.pad(data, [[-tf.size(data) % 4, 0]])
    bits = tf.bitwise.right_shift(tf.cast(filled, tf.int32)[:, tf.newaxis], tf.range(8)) & 1
    return tf.reshape(tf.cast(bits, tf.float32), [-1, 32])


def _gf2(counts: tf.Tensor) -> tf.Tensor:
    """Reduces ordinary sums of bits modulo 2. The sums are at most 33, so they are exact on every device."""
    return tf.math.floormod(counts, 2.0)


def _word_step() -> npt.NDArray[np.float32]:
    """The matrix A, transposed: row ``i`` is the result of register bit ``i`` after 32 message bits."""
    rows = []
    for i in range(32):
        register = 1 << i
        for _ in range(32):
            register = (register >> 1) ^ (_POLYNOMIAL if register & 1 else 0)
        rows.append([register >> place & 1 for place in range(32)])
    return np.array(rows, np.float32)
