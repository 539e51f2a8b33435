"""The reference of `fedplug.ops.low_rank` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.arguments import after, require, same_shape
from fedplug.ops._tensorflow.arrays import saturate_cast
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.reference.traced import traced_once

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times"]


@traced_once
def matrix_times(a: tf.Tensor, b: tf.Tensor, transposed: bool) -> tf.Tensor:
    terms = tf.shape(a)[0 if transposed else 1]
    a = after([require(tf.equal(terms, tf.shape(b)[0]), "the shapes of a and b do not fit")], a)
    if not transposed:
        a = tf.transpose(a)
    columns = [_column_sums(a * column[:, tf.newaxis]) for column in tf.unstack(b, axis=1)]
    if not columns:
        return tf.zeros([tf.shape(a)[1], 0], b.dtype)
    return refuse_gradient(tf.stack(columns, axis=1))


@traced_once
def low_rank_matrix(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    ones = [require(tf.shape(p)[1] >= 1, "p and q have no columns")]
    p_columns, q_columns = tf.unstack(after(ones, p), axis=1), tf.unstack(q, axis=1)
    total = tf.zeros([tf.shape(p)[0], tf.shape(q)[0]], p.dtype)
    for j, (of_rows, of_columns) in enumerate(zip(p_columns, q_columns, strict=True)):
        product = of_rows[:, tf.newaxis] * of_columns
        total = total + product if j else product
    return refuse_gradient(saturate_cast(total, p.dtype))


@traced_once
def low_rank_residual(a: tf.Tensor, p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    made = low_rank_matrix(p, q)
    check = require(same_shape(a, made), "a must have the shape of the product of p and q")
    return refuse_gradient(after([check], a) - made)


def _column_sums(rows: tf.Tensor) -> tf.Tensor:
    """Sums over the first axis, adding halves to halves: ``[m, n]`` to ``[n]``; 0 if m is 0."""

    def halved(rows: tf.Tensor) -> tuple[tf.Tensor]:
        count = tf.shape(rows)[0]
        half = (count + 1) // 2
        return (rows[:half] + tf.pad(rows[half:], [[0, count % 2], [0, 0]]),)

    (last,) = tf.while_loop(
        lambda rows: tf.shape(rows)[0] > 1,
        halved,
        (rows,),
        shape_invariants=(tf.TensorShape([None, rows.shape[1]]),),
    )
    return tf.pad(last, [[0, 1], [0, 0]])[0]
