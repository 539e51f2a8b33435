"""The reference of `fedplug.ops.topk` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.arguments import after, require, same_shape
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["chunked_topk_residual", "grouped_topk_residual", "magnitude_bits", "topk_residual"]


@traced_once
def grouped_topk_residual(
    deltas: tf.Tensor, residuals: tf.Tensor, k: tf.Tensor, on_nonfinite: str
) -> tuple[tf.Tensor, ...]:
    checks = [
        require(same_shape(delta, residual), "a delta and its residual must have the same shape")
        for delta, residual in zip(deltas, residuals, strict=True)
    ]
    sizes = tf.stack([tf.size(delta, tf.int64) for delta in deltas])
    values, indices, residual, nonfinite = topk_residual(
        _end_to_end(deltas), after(checks, _end_to_end(residuals)), k, on_nonfinite
    )
    ends = tf.cumsum(sizes)
    tensor_of = tf.searchsorted(ends, tf.cast(indices, tf.int64), side="right")
    row_splits = tf.concat([[0], tf.searchsorted(tensor_of, tf.range(1, len(deltas) + 1))], 0)
    begins = tf.gather(ends - sizes, tensor_of)
    rest = []
    for delta, part in zip(deltas, tf.split(residual, sizes, num=len(deltas)), strict=True):
        part = tf.reshape(part, tf.shape(delta))
        part.set_shape(delta.shape)
        rest.append(part)
    return values, indices - tf.cast(begins, tf.int32), tf.cast(row_splits, tf.int64), rest, nonfinite


def _end_to_end(tensors: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


@traced_once
def topk_residual(
    delta: tf.Tensor, residual: tf.Tensor, k: tf.Tensor, on_nonfinite: str
) -> tuple[tf.Tensor, ...]:
    shape = tf.shape(delta)
    checks = [
        require(same_shape(delta, residual), "delta and residual must have the same shape"),
        require(k >= 0, "k must be 0 or more", k),
    ]
    a = refuse_gradient(tf.reshape(after(checks, delta) + residual, [-1]))
    finite = tf.math.is_finite(a)
    nonfinite = tf.math.count_nonzero(~finite)
    if on_nonfinite == "error":
        refusal = require(
            tf.equal(nonfinite, 0),
            "sums of delta and residual are NaN or infinite; leave this update out, or drop them with "
            "on_nonfinite='drop'; their number is",
            nonfinite,
        )
        a, nonfinite = after([refusal], a), after([refusal], nonfinite)
    a = tf.where(finite, a, tf.zeros_like(a))
    kept = tf.cast(tf.minimum(k, tf.size(a, tf.int64)), tf.int32)
    indices = tf.sort(tf.math.top_k(magnitude_bits(a), kept, sorted=False).indices)
    values = tf.gather(a, indices)
    rest = tf.tensor_scatter_nd_update(a, indices[:, tf.newaxis], tf.zeros_like(values))
    rest = tf.reshape(rest, shape)
    rest.set_shape(delta.shape)
    return values, indices, rest, nonfinite


def magnitude_bits(a: tf.Tensor) -> tf.Tensor:
    """Maps ``a`` to integers in the order of ``|a|``.

    The bits of a non-negative IEEE 754 number, read as an integer, ascend with its value.
    """
    bits = {2: tf.int16, 4: tf.int32, 8: tf.int64}[a.dtype.size]
    return tf.bitwise.bitwise_and(tf.bitcast(a, bits), bits.max)


@traced_once
def chunked_topk_residual(
    delta: tf.Tensor, residual: tf.Tensor, k: tf.Tensor, decay: tf.Tensor, chunk: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    zero, one = tf.zeros([], delta.dtype), tf.ones([], delta.dtype)
    checks = [
        require(same_shape(delta, residual), "delta and residual must have the same shape"),
        require(k >= 0, "k must be 0 or more", k),
        require((decay >= zero) & (decay <= one), "decay must be in [0, 1]"),
    ]
    a = refuse_gradient(tf.reshape(after(checks, delta) + decay * residual, [-1]))
    finite = require(
        tf.reduce_all(tf.math.is_finite(a)),
        "sums of delta and residual are NaN or infinite; leave this update out",
    )
    a = after([finite], a)
    indices = _largest_of_chunks(magnitude_bits(a), k, chunk)
    values = tf.gather(a, indices)
    rest = tf.tensor_scatter_nd_update(a, indices[:, tf.newaxis], tf.zeros_like(values))
    rest = tf.reshape(rest, tf.shape(delta))
    rest.set_shape(delta.shape)
    return values, indices, rest


def _largest_of_chunks(keys: tf.Tensor, k: tf.Tensor, chunk: int) -> tf.Tensor:
    """The indices of the k largest keys of every chunk, ascending."""
    size = tf.size(keys)
    width = tf.maximum(tf.minimum(size, chunk), 1)
    missing = -size % width
    rows = tf.reshape(tf.pad(keys, [[0, missing]], constant_values=-1), [-1, width])
    kept = tf.cast(tf.minimum(k, tf.cast(width, tf.int64)), tf.int32)
    columns = tf.math.top_k(rows, kept, sorted=False).indices
    places = columns + width * tf.range(tf.shape(rows)[0])[:, tf.newaxis]
    places = tf.sort(tf.reshape(places, [-1]))
    return places[: tf.reduce_sum(tf.cast(places < size, tf.int32))]
