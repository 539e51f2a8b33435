"""`fedplug.ops.statistics` on tensors."""

from __future__ import annotations

import math

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow.arguments import as_int64, require_whole
from fedplug.ops._tensorflow.packing import packed_size, unpack
from fedplug.ops._tensorflow.spec import widened
from fedplug.ops.types import Scalar


def sum_of_squares(x: tf.Tensor) -> tf.Tensor:
    return 2 * tf.cast(tf.nn.l2_loss(widened(x)), tf.float64)  # reads memory once, unlike x * x


def subset_bits(count: Scalar, size: Scalar) -> tf.Tensor:
    require_whole(count=count)
    require_whole(size=size)
    n, k = tf.cast(size, tf.float64), tf.cast(count, tf.float64)
    ways = tf.math.lgamma(n + 1) - tf.math.lgamma(k + 1) - tf.math.lgamma(n - k + 1)
    return tf.maximum(ways, 0) / math.log(2)


def symbol_bits(packed: tf.Tensor, count: Scalar, bits: int) -> tf.Tensor:
    bits, count = whole("bits", bits, 1, 16), as_int64("count", count)
    if bits > 8:
        high_at = packed_size(count, bits - 8)
        low = unpack(packed[:high_at], count, bits - 8, "the low bits of symbols")
        symbols = tf.cast(packed[high_at:], tf.int32) * 2 ** (bits - 8) + tf.cast(low, tf.int32)
    else:
        symbols = packed if bits == 8 else unpack(packed, count, bits, "symbols")
    found = tf.math.bincount(tf.cast(symbols, tf.int32), minlength=2**bits, maxlength=2**bits)
    found = tf.cast(found, tf.float64)
    each = found * tf.math.log(tf.math.divide_no_nan(tf.reduce_sum(found), found))
    return tf.reduce_sum(tf.where(found > 0, each, 0)) / math.log(2)
