"""`fedplug.ops.serialization` on tensors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_bytes, as_int64, require_vectors, require_whole
from fedplug.ops._tensorflow.checks import of_length, require
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, DType


def to_bytes(x: tf.Tensor) -> tf.Tensor:
    if x.dtype == tf.bool:
        return tf.reshape(tf.cast(x, tf.uint8), [-1])
    return tf.reshape(tf.bitcast(tf.reshape(x, [-1]), tf.uint8), [-1])


def from_bytes(data: tf.Tensor, dtype: DType) -> tf.Tensor:
    dtype = tf.as_dtype(dtype)
    if dtype == tf.bool:
        with require(tf.reduce_all(data <= 1), "a bool on the wire is neither 0 nor 1"):
            return tf.cast(data, tf.bool)
    if dtype.size == 1:
        return tf.bitcast(data, dtype)
    with require(
        tf.size(data) % dtype.size == 0, f"the bytes on the wire are not whole {dtype.name} numbers"
    ):
        return tf.bitcast(tf.reshape(data, [-1, dtype.size]), dtype)


def finite_from_bytes(data: tf.Tensor, count: tf.Tensor | int, dtype: DType) -> tf.Tensor:
    require_whole(count=count)
    dtype = tf.as_dtype(dtype)
    if resolve_lowering() == "fused":
        return loader.library().fedplug_finite_from_bytes(data, as_int64("count", count), T=dtype)
    values = from_bytes(of_length(data, count * dtype.size, "the bytes of raw values"), dtype)
    with require(tf.reduce_all(tf.math.is_finite(values)), "a raw value is NaN or infinite"):
        return tf.identity(values)


def crc32(data: Array, *, lowering: str | None = None) -> tf.Tensor:
    data = as_bytes("data", data)
    require_vectors(data=data)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_crc32(data)
    return _crc32(data)


_POLYNOMIAL = 0xEDB88320
_PREFIX = (0x62, 0xF5, 0x26, 0x92)
"""The four bytes that take a register of zeros to the ones with which zlib begins."""


@traced_once
def _crc32(data: tf.Tensor) -> tf.Tensor:
    """The CRC-32 of zlib, without a loop over bytes.

    A CRC register is a vector of 32 bits, and processing one word of 32 message bits is linear over GF(2):
    ``register' = A (register + word)``. The register after the words ``w_1 .. w_m`` is the sum of
    ``A^(m+1-i) w_i``. That sum is folded pairwise: a step adds ``A^(2^step)`` times each even row to the odd
    row after it, which halves the number of rows. Source: Warren, "Hacker's Delight", 2nd ed., chapter 14.
    """
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
