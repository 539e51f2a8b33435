"""`fedplug.ops.scatter` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    after,
    as_floats,
    as_indices,
    as_int64,
    require,
    require_equal_shapes,
    require_floating,
    require_vectors,
    require_wide,
    same_shape,
)
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, Scalar, TakenFromSum


def scatter_decode_add(
    accumulator: Array,
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    lowering: str | None = None,
) -> tf.Tensor:
    accumulator = tf.convert_to_tensor(accumulator)
    values = as_floats("values", values, accumulator.dtype)
    require_floating(accumulator=accumulator)
    payloads = _payloads(values, indices, row_splits, weights)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_scatter_decode_add(accumulator, *payloads)
    return _scatter_decode_add(accumulator, *payloads)


def scatter_decode(
    size: Scalar,
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    lowering: str | None = None,
) -> tf.Tensor:
    size = as_int64("size", size)
    values = tf.convert_to_tensor(values)
    require_floating(values=values)
    payloads = _payloads(values, indices, row_splits, weights)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_scatter_decode(size, *payloads)
    return _scatter_decode(size, *payloads)


def _payloads(
    values: tf.Tensor, indices: tf.Tensor, row_splits: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Converts values, indices, row splits and weights to tensors, and checks their static shapes."""
    indices = as_indices("indices", indices)
    if row_splits is None:
        row_splits = tf.stack([tf.constant(0, tf.int64), tf.size(values, tf.int64)])
    row_splits = as_int64("row_splits", row_splits)
    require_vectors(values=values, indices=indices, row_splits=row_splits)
    require_equal_shapes(values=values, indices=indices)
    if weights is None:
        weights = tf.ones(tf.maximum(tf.shape(row_splits) - 1, 0), values.dtype)
    weights = as_floats("weights", weights, values.dtype)
    require_vectors(weights=weights)
    return values, indices, row_splits, weights


def gather_finite(x: tf.Tensor, indices: Array) -> tf.Tensor:
    return tf.gather(tf.reshape(x, [-1]), as_indices("indices", indices))


def take_from_sum(
    delta: Array, residual: Array, indices: Array, *, lowering: str | None = None
) -> TakenFromSum:
    delta = tf.convert_to_tensor(delta)
    residual = as_floats("residual", residual, delta.dtype)
    indices = as_indices("indices", indices)
    require_wide(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    if resolve_lowering(lowering) == "fused":
        return TakenFromSum(*loader.library().fedplug_take_from_sum(delta, residual, indices))
    return TakenFromSum(*_take_from_sum(delta, residual, indices))


_MAX_SIZE = 2**31 - 1


@traced_once
def _scatter_decode(
    size: tf.Tensor, values: tf.Tensor, indices: tf.Tensor, row_splits: tf.Tensor, weights: tf.Tensor
) -> tf.Tensor:
    in_range = (size >= 0) & (size <= _MAX_SIZE)
    checked = after([require(in_range, "size is not in [0, 2^31)", size)], size)
    zeros = tf.zeros(tf.reshape(checked, [1]), values.dtype)
    zeros.set_shape([tf.get_static_value(size)])
    return _scatter_decode_add(zeros, values, indices, row_splits, weights)


@traced_once
def _scatter_decode_add(
    accumulator: tf.Tensor, values: tf.Tensor, indices: tf.Tensor, row_splits: tf.Tensor, weights: tf.Tensor
) -> tf.Tensor:
    shape = tf.shape(accumulator)
    flat = refuse_gradient(tf.reshape(accumulator, [-1]))
    payloads = tf.size(weights)
    row_splits = after(_row_split_checks(row_splits, tf.size(values), tf.size(indices), payloads), row_splits)
    indices = after([_index_check(indices, row_splits, tf.size(flat))], indices)

    # One scatter per payload: TensorFlow does not specify the order of several additions to one element.
    def add(i: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
        mine = slice(row_splits[i], row_splits[i + 1])
        return i + 1, tf.tensor_scatter_nd_add(total, indices[mine, tf.newaxis], weights[i] * values[mine])

    _, total = tf.while_loop(
        lambda i, _: i < payloads, add, (0, flat), shape_invariants=(tf.TensorShape([]), flat.shape)
    )
    total = refuse_gradient(tf.reshape(total, shape))
    total.set_shape(accumulator.shape)
    return total


def _row_split_checks(
    row_splits: tf.Tensor, entries: tf.Tensor, index_count: tf.Tensor, payloads: tf.Tensor
) -> list[tf.Tensor]:
    return [
        require(tf.equal(entries, index_count), "values and indices differ in length", entries, index_count),
        require(
            tf.equal(tf.size(row_splits), payloads + 1),
            "row_splits must have one element more than weights",
            tf.size(row_splits),
            payloads,
        ),
        require(
            tf.reduce_all(tf.equal(row_splits[:1], 0))
            & tf.reduce_all(row_splits[1:] >= row_splits[:-1])
            & tf.reduce_all(tf.equal(row_splits[-1:], tf.cast(entries, tf.int64))),
            "row_splits must ascend from 0 to the number of entries",
            row_splits,
            entries,
        ),
    ]


def _index_check(indices: tf.Tensor, row_splits: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    entry = tf.range(tf.size(indices), dtype=tf.int64)
    payload = tf.searchsorted(row_splits, entry, side="right") - 1
    begins = tf.equal(entry, tf.gather(row_splits, payload))
    previous = tf.concat([[-1], indices[:-1]], 0)[: tf.size(indices)]
    bad = (indices < 0) | (indices >= n) | (~begins & (indices <= previous))
    return require(
        ~tf.reduce_any(bad),
        "the indices of a payload must ascend strictly and be in [0, n); those of this payload do not:",
        tf.boolean_mask(payload, bad)[:1],
    )


@traced_once
def _take_from_sum(delta: tf.Tensor, residual: tf.Tensor, indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    checks = [
        require(same_shape(delta, residual), "delta and residual must have the same shape"),
        _inside(indices, tf.size(delta)),
        require(tf.reduce_all(indices[1:] > indices[:-1]), "the indices must ascend"),
    ]
    a = refuse_gradient(tf.reshape(after(checks, delta) + residual, [-1]))
    finite = require(
        tf.reduce_all(tf.math.is_finite(a)),
        "sums of delta and residual are NaN or infinite; leave this update out",
    )
    a = after([finite], a)
    zeros = tf.zeros(tf.shape(indices), a.dtype)
    rest = tf.reshape(tf.tensor_scatter_nd_update(a, indices[:, tf.newaxis], zeros), tf.shape(delta))
    rest.set_shape(delta.shape)
    return tf.gather(a, indices), rest


def _inside(indices: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    return require(tf.reduce_all((indices >= 0) & (indices < size)), "an index is not of an element")
