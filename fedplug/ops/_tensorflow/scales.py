"""`fedplug.ops.scales` on tensors, and functions for the references of value codes."""

from __future__ import annotations

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow.arguments import require_whole
from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.serialization import from_bytes


def block_count(count: tf.Tensor | int, size: int) -> tf.Tensor | int:
    require_whole(count=count, size=size)
    return (count + size - 1) // size


def block_scales(values: tf.Tensor, size: int) -> tf.Tensor:
    return tf.reduce_max(tf.abs(_rows(values, whole("size", size, 1))), axis=1)


def relative_to_scales(values: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Divides values ``[n]`` by the scale of their block. Returns quotients and scales.

    The scales are ``[block_count(n)]``, the quotients in ``[-1, 1]``. Both are zero in a block of zeros.
    """
    rows, scales = _rows(values, size), block_scales(values, size)
    relative = tf.math.divide_no_nan(rows, scales[:, tf.newaxis])
    return tf.reshape(relative, [-1])[: tf.size(values)], scales


def times_scales(relative: tf.Tensor, scales: tf.Tensor, size: int) -> tf.Tensor:
    """Inverts `relative_to_scales`. Both arguments have one dtype."""
    rows = _rows(relative, size) * scales[:, tf.newaxis]
    return tf.reshape(rows, [-1])[: tf.size(relative)]


def scales_from_bytes(data: tf.Tensor, dtype: tf.DType, what: str) -> tf.Tensor:
    scales = from_bytes(data, dtype)
    positive = data[dtype.size - 1 :: dtype.size] < 0x80  # the sign is the highest bit of the last byte
    valid = tf.reduce_all(tf.math.is_finite(scales)) & tf.reduce_all(positive)
    with require(valid, f"a scale of {what} is not valid"):
        return tf.identity(scales)


def _rows(values: tf.Tensor, size: int) -> tf.Tensor:
    return tf.reshape(tf.pad(values, [[0, -tf.size(values) % size]]), [-1, size])


def mean_magnitude(values: tf.Tensor) -> tf.Tensor:
    count = tf.maximum(tf.size(values), 1)
    parts = tf.abs(tf.cast(values, tf.float64)) * (1 / tf.cast(count, tf.float64))
    parts = tf.pad(parts, [[0, count - tf.size(values)]])

    def halve(parts: tf.Tensor) -> tuple[tf.Tensor]:
        half = (tf.size(parts) + 1) // 2
        parts = tf.pad(parts, [[0, tf.size(parts) % 2]])
        return (parts[:half] + parts[half:],)

    (total,) = tf.while_loop(
        lambda parts: tf.size(parts) > 1, halve, (parts,), shape_invariants=(tf.TensorShape([None]),)
    )
    largest = tf.cast(values.dtype.max, tf.float64)
    return tf.cast(tf.minimum(total[0], largest), values.dtype)
