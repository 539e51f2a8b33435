"""The form "codebook" of `value_code`. csrc/core/value_code.h specifies its steps."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.packing import pack, unpack
from fedplug.ops._tensorflow.serialization import from_bytes, to_bytes
from fedplug.ops._tensorflow.spec import widened

__all__ = [
    "decode",
    "encode",
    "largest_magnitude",
    "power_below",
    "power_of_two",
]

_EXPONENT_AT = 52
_EXPONENT_BIAS = 1023


def largest_magnitude(values: tf.Tensor) -> tf.Tensor:
    """The largest magnitude of a vector, float64 scalar; 0 for an empty vector."""
    largest = tf.reduce_max(tf.abs(tf.cast(values, tf.float64)))
    return tf.where(tf.size(values) > 0, largest, tf.zeros_like(largest))  # -infinity if empty


def power_below(magnitude: tf.Tensor) -> tf.Tensor:
    """The p with 2^p <= magnitude < 2^(p + 1), within [-1022, 1022]; int64 scalar for a float64 scalar."""
    exponent = tf.bitwise.right_shift(tf.bitcast(magnitude, tf.int64), _EXPONENT_AT) - _EXPONENT_BIAS
    return tf.clip_by_value(exponent, 1 - _EXPONENT_BIAS, _EXPONENT_BIAS - 1)


def power_of_two(power: tf.Tensor) -> tf.Tensor:
    """``2^power`` for an int64 scalar within [-1022, 1023]. float64 scalar."""
    bits = tf.bitwise.left_shift(tf.cast(power, tf.int64) + _EXPONENT_BIAS, _EXPONENT_AT)
    return tf.bitcast(bits, tf.float64)


_RANGE_IN_SIGMAS = 6.0
_TERMS = 1024


def encode(values: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Encodes finite values. ``bits`` is an int64 scalar from 1 to 8."""
    power = power_below(largest_magnitude(values))
    scaled = tf.cast(values, tf.float64) * power_of_two(-power)
    symbols = _bins(scaled, bits)

    bins = tf.cast(tf.bitwise.left_shift(tf.ones_like(bits), bits), tf.int32)
    fraction = 60 - _bit_width(tf.size(values))
    whole = tf.cast(scaled * power_of_two(fraction), tf.int64)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(whole), symbols, bins)
    cut = tf.truncatediv(tf.math.unsorted_segment_sum(whole, symbols, bins), tf.maximum(counts, 1))
    means = tf.cast(cut, tf.float64) * power_of_two(-fraction) * power_of_two(power)
    # Through float32: all implementations round 16-bit numbers from it.
    means = tf.cast(tf.cast(means, widened(values).dtype), values.dtype)

    header = tf.cast(tf.reshape(bits, [1]), tf.uint8)
    return tf.concat([header, to_bytes(means), pack(tf.cast(symbols, tf.uint8), bits)], axis=0)


def decode(code: tf.Tensor, count: tf.Tensor, bits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Decodes ``count`` values. Refuses bytes that `encode` does not write."""
    bins_at = 1 + dtype.size * tf.bitwise.left_shift(tf.ones_like(bits), bits)
    with require(
        tf.size(code, tf.int64) >= bins_at, "a codebook payload is too short to hold the means of its bins"
    ):
        code = tf.identity(code)
    same = tf.equal(tf.cast(code[0], tf.int64), bits)
    with require(same, "a codebook payload was not made with these bits"):
        means = from_bytes(code[1:bins_at], dtype)
    with require(
        tf.reduce_all(tf.math.is_finite(means)), "a codebook payload holds a mean that is not finite"
    ):
        means = tf.identity(means)
    symbols = unpack(code[bins_at:], count, bits, "the bins of a codebook payload")
    return tf.gather(means, tf.cast(symbols, tf.int32))


def _bins(scaled: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """The number of the bin of each value, int32."""
    # A product with the reciprocal, because TensorFlow turns a division by a constant into that in graphs.
    count = tf.cast(tf.size(scaled), tf.float64)
    mean = _sum(scaled) * (1 / tf.maximum(count, 1))
    centred = scaled - mean
    sigma = tf.sqrt(_sum(centred * centred) * (1 / tf.maximum(count - 1, 1)))
    middle = tf.bitwise.left_shift(tf.ones_like(bits), bits - 1)
    middle = tf.cast(middle, tf.float64)
    per_bin = tf.math.divide_no_nan(2 * middle, _RANGE_IN_SIGMAS * sigma)
    nearest = tf.clip_by_value(tf.round(centred * per_bin), -middle, middle - 1)
    return tf.cast(nearest + middle, tf.int32)


def _sum(terms: tf.Tensor) -> tf.Tensor:
    """Adds float64 terms in the order that csrc/core/value_code.h specifies."""

    def of_chunks(terms: tf.Tensor) -> tuple[tf.Tensor]:
        rows = tf.reshape(tf.pad(terms, [[0, -tf.size(terms) % _TERMS]]), [-1, _TERMS])
        half = _TERMS
        while half > 1:
            half //= 2
            rows = rows[:, :half] + rows[:, half:]
        return (rows[:, 0],)

    (terms,) = of_chunks(terms)
    (terms,) = tf.while_loop(
        lambda terms: tf.size(terms) > 1, of_chunks, (terms,), shape_invariants=(tf.TensorShape([None]),)
    )
    return tf.reduce_sum(terms)  # of at most one term


def _bit_width(count: tf.Tensor) -> tf.Tensor:
    """The bit width of a count below 2^31, int64 scalar."""
    powers = tf.constant([2**power for power in range(31)], tf.int32)
    return tf.reduce_sum(tf.cast(count >= powers, tf.int64))
