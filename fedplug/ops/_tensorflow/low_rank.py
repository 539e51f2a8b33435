"""`fedplug.ops.low_rank` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import require_wide
from fedplug.ops._tensorflow.reference import low_rank as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times"]


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
    return reference.matrix_times(a, b, transposed)


def low_rank_matrix(p: tf.Tensor, q: tf.Tensor, *, lowering: str | None = None) -> tf.Tensor:
    p, q = tf.convert_to_tensor(p), tf.convert_to_tensor(q)
    require_wide(p=p)
    _require_factors(p.dtype, p=p, q=q)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_low_rank_matrix(p, q)
    return reference.low_rank_matrix(p, q)


def low_rank_residual(a: tf.Tensor, p: tf.Tensor, q: tf.Tensor, *, lowering: str | None = None) -> tf.Tensor:
    a, p, q = tf.convert_to_tensor(a), tf.convert_to_tensor(p), tf.convert_to_tensor(q)
    require_wide(a=a)
    _require_matrix(a=a)
    _require_factors(a.dtype, p=p, q=q)
    made = tf.TensorShape([p.shape[0], q.shape[0]])
    if not a.shape.is_compatible_with(made):
        raise ValueError(
            f"a has shape {a.shape} but the product of p and q has {made}; the two must be equal"
        )
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_low_rank_residual(a, p, q)
    return reference.low_rank_residual(a, p, q)


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
