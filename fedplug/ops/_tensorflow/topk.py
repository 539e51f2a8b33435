"""`fedplug.ops.topk` on tensors."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from fedplug.errors import ArgumentError, DTypeError
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    after,
    as_floats,
    as_int64,
    require,
    require_equal_shapes,
    require_wide,
    same_shape,
)
from fedplug.ops._tensorflow.gradients import refuse_gradient
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, GroupedTopK, Scalar, TopK


def topk_residual(delta: Array, residual: Array, k: Scalar, *, lowering: str | None = None) -> TopK:
    delta = tf.convert_to_tensor(delta)
    residual = as_floats("residual", residual, delta.dtype)
    require_wide(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    k = as_int64("k", k)
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_grouped_top_k_residual
        taken = GroupedTopK(*op([delta], [residual], k))
        return TopK(taken.values, taken.indices, taken.residuals[0])
    return TopK(*_topk_residual(delta, residual, k))


def grouped_topk_residual(
    deltas: Sequence[Array],
    residuals: Sequence[Array],
    k: Scalar,
    *,
    lowering: str | None = None,
) -> GroupedTopK:
    if not deltas or len(deltas) != len(residuals):
        raise ArgumentError(
            f"there are {len(deltas)} deltas and {len(residuals)} residuals; give at least one, and as many "
            "of these as of those"
        )
    deltas = [tf.convert_to_tensor(delta) for delta in deltas]
    residuals = [
        as_floats(f"residual {t}", residual, delta.dtype)
        for t, (residual, delta) in enumerate(zip(residuals, deltas, strict=True))
    ]
    dtypes = sorted({delta.dtype.name for delta in deltas})
    if len(dtypes) > 1:
        raise DTypeError(f"the deltas must be of one dtype, not {' and '.join(dtypes)}")
    for t, (delta, residual) in enumerate(zip(deltas, residuals, strict=True)):
        require_wide(**{f"delta {t}": delta})
        require_equal_shapes(**{f"delta {t}": delta, f"residual {t}": residual})
    k = as_int64("k", k)
    if resolve_lowering(lowering) == "fused":
        op = loader.library().fedplug_grouped_top_k_residual
        return GroupedTopK(*op(deltas, residuals, k))
    return GroupedTopK(*_grouped_topk_residual(deltas, residuals, k))


@traced_once
def _grouped_topk_residual(deltas: tf.Tensor, residuals: tf.Tensor, k: tf.Tensor) -> tuple[tf.Tensor, ...]:
    checks = [
        require(same_shape(delta, residual), "a delta and its residual must have the same shape")
        for delta, residual in zip(deltas, residuals, strict=True)
    ]
    sizes = tf.stack([tf.size(delta, tf.int64) for delta in deltas])
    values, indices, residual = _topk_residual(_end_to_end(deltas), after(checks, _end_to_end(residuals)), k)
    ends = tf.cumsum(sizes)
    tensor_of = tf.searchsorted(ends, tf.cast(indices, tf.int64), side="right")
    row_splits = tf.concat([[0], tf.searchsorted(tensor_of, tf.range(1, len(deltas) + 1))], 0)
    begins = tf.gather(ends - sizes, tensor_of)
    rest = []
    for delta, part in zip(deltas, tf.split(residual, sizes, num=len(deltas)), strict=True):
        part = tf.reshape(part, tf.shape(delta))
        part.set_shape(delta.shape)
        rest.append(part)
    return values, indices - tf.cast(begins, tf.int32), tf.cast(row_splits, tf.int64), rest


def _end_to_end(tensors: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


@traced_once
def _topk_residual(delta: tf.Tensor, residual: tf.Tensor, k: tf.Tensor) -> tuple[tf.Tensor, ...]:
    shape = tf.shape(delta)
    checks = [
        require(same_shape(delta, residual), "delta and residual must have the same shape"),
        require(k >= 0, "k must be 0 or more", k),
    ]
    a = refuse_gradient(tf.reshape(after(checks, delta) + residual, [-1]))
    nonfinite = tf.math.count_nonzero(~tf.math.is_finite(a))
    refusal = require(
        tf.equal(nonfinite, 0),
        "sums of delta and residual are NaN or infinite; leave this update out; their number is",
        nonfinite,
    )
    a = after([refusal], a)
    kept = tf.cast(tf.minimum(k, tf.size(a, tf.int64)), tf.int32)
    indices = tf.sort(tf.math.top_k(_magnitude_bits(a), kept, sorted=False).indices)
    values = tf.gather(a, indices)
    rest = tf.tensor_scatter_nd_update(a, indices[:, tf.newaxis], tf.zeros_like(values))
    rest = tf.reshape(rest, shape)
    rest.set_shape(delta.shape)
    return values, indices, rest


def _magnitude_bits(a: tf.Tensor) -> tf.Tensor:
    """Maps ``a`` to integers in the order of ``|a|``.

    The bits of a non-negative IEEE 754 number, read as an integer, ascend with its value.
    """
    bits = {2: tf.int16, 4: tf.int32, 8: tf.int64}[a.dtype.size]
    return tf.bitwise.bitwise_and(tf.bitcast(a, bits), bits.max)
