"""`fedplug.ops.low_rank` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import after, require, require_wide
from fedplug.ops._tensorflow.arrays import saturate_cast
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering


def matrix_times(
    a: tf.Tensor, b: tf.Tensor, *, transposed: bool = False, lowering: str | None = None
) -> tf.Tensor:
    a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    require_wide(a=a)
    _require_matrix(a=a)
    _require_factors(a.dtype, b=b)
    terms, rows = a.shape.with_rank(2)[0 if transposed else 1], b.shape[0]
    if None not in (terms, rows) and terms != rows:
        raise ValueError(f"a of shape {a.shape} and b of shape {b.shape} do not fit")
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_matrix_times(a, b, transposed=transposed)
    return _matrix_times(a, b, transposed)


def low_rank_matrix(p: tf.Tensor, q: tf.Tensor, *, lowering: str | None = None) -> tf.Tensor:
    p, q = tf.convert_to_tensor(p), tf.convert_to_tensor(q)
    require_wide(p=p)
    _require_factors(p.dtype, p=p, q=q)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_low_rank_matrix(p, q)
    return _low_rank_matrix(p, q)


def _require_matrix(**tensors: tf.Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.shape.rank not in (None, 2):
            raise ValueError(f"{name} must be a matrix, not of shape {tensor.shape}")


def _require_factors(dtype: tf.DType, **factors: tf.Tensor) -> None:
    """Raises unless the factors are matrices of the same width and of this dtype."""
    columns = set()
    for name, factor in factors.items():
        if factor.dtype != dtype:
            raise TypeError(f"{name} must be {dtype.name} like the others, not {factor.dtype.name}")
        _require_matrix(**{name: factor})
        if factor.shape.rank is None or factor.shape[1] is None:
            raise ValueError(f"the number of columns of {name} must be known, not of shape {factor.shape}")
        columns.add(factor.shape[1])
    if len(columns) > 1:
        raise ValueError(
            f"{' and '.join(factors)} must have the same number of columns, not {sorted(columns)}"
        )


@traced_once
def _matrix_times(a: tf.Tensor, b: tf.Tensor, transposed: bool) -> tf.Tensor:
    terms = tf.shape(a)[0 if transposed else 1]
    a = after([require(tf.equal(terms, tf.shape(b)[0]), "the shapes of a and b do not fit")], a)
    if not transposed:
        a = tf.transpose(a)
    columns = [_column_sums(a * column[:, tf.newaxis]) for column in tf.unstack(b, axis=1)]
    if not columns:
        return tf.zeros([tf.shape(a)[1], 0], b.dtype)
    return refuse_gradient(tf.stack(columns, axis=1))


@traced_once
def _low_rank_matrix(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    ones = [require(tf.shape(p)[1] >= 1, "p and q have no columns")]
    p_columns, q_columns = tf.unstack(after(ones, p), axis=1), tf.unstack(q, axis=1)
    total = tf.zeros([tf.shape(p)[0], tf.shape(q)[0]], p.dtype)
    for j, (of_rows, of_columns) in enumerate(zip(p_columns, q_columns, strict=True)):
        product = of_rows[:, tf.newaxis] * of_columns
        total = total + product if j else product
    return refuse_gradient(saturate_cast(total, p.dtype))


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
