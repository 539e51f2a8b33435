"""The reference of `fedplug.ops.scatter` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.arguments import after, require
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["scatter_decode", "scatter_decode_add"]

_MAX_SIZE = 2**31 - 1


@traced_once
def scatter_decode(
    size: tf.Tensor, values: tf.Tensor, indices: tf.Tensor, row_splits: tf.Tensor, weights: tf.Tensor
) -> tf.Tensor:
    in_range = (size >= 0) & (size <= _MAX_SIZE)
    checked = after([require(in_range, "size is not in [0, 2^31)", size)], size)
    zeros = tf.zeros(tf.reshape(checked, [1]), values.dtype)
    zeros.set_shape([tf.get_static_value(size)])
    return scatter_decode_add(zeros, values, indices, row_splits, weights)


@traced_once
def scatter_decode_add(
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
