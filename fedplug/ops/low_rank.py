"""A large matrix and its approximation by thin ones, with the same bits on any number of threads.

The matrix multiplication of a library orders its additions by threads and vector width. Here elements are
multiplied first, and the products are added halves to halves (csrc/core/matrix_times.h). Arithmetic is in
float32, of float64 in float64. None of these is differentiable. TensorFlow's arithmetic takes denormal
numbers for zero, and so do the references; the kernels do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for, take_result
from fedplug.ops.types import Array, SumAndLargest

__all__ = ["low_rank_matrix", "low_rank_residual", "matrix_times", "sum_and_largest"]


@also_on(tensors=lambda: _tensorflow.low_rank.sum_and_largest)
def sum_and_largest(delta: Array, residual: Array, *, lowering: str | None = None) -> SumAndLargest:
    """``delta + residual``, in the place of the next residual, and the largest magnitude in it.

    The residual stays as it is even where it was donated: who sees that the sum is not finite refuses it.

    Args:
        delta: The update of this round; any shape; float32, float64, bfloat16 or float16.
        residual: What earlier rounds left behind; shape and dtype of ``delta``.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Raises:
        TypeError: ``delta`` is not of one of these dtypes.
        ValueError: The static shapes differ.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the shapes differ.
    """
    place = place_for(residual, delta)
    if place is residual:
        place = kernels.empty(residual.shape, residual.dtype)
    total, largest = kernels.sum_and_largest(np.ascontiguousarray(delta), residual, out=place)
    return SumAndLargest(total, largest.reshape(()))


@also_on(tensors=lambda: _tensorflow.low_rank.matrix_times)
def matrix_times(
    a: Array, b: Array, *, scale: Any = 1, transposed: bool = False, lowering: str | None = None
) -> Array:
    """``(a / scale) b``, or ``(a / scale)' b``, for a few columns of ``b``.

    Args:
        a: ``[m, n]``; float32, float64, bfloat16 or float16.
        b: ``[n, r]``, or ``[m, r]`` with ``transposed``, in the `wide_dtype` of ``a``; r is known while a
            graph is built.
        scale: A scalar; elements of ``a`` are divided by it first, and are 0 where it is 0.
        transposed: Whether it is ``a'`` that is multiplied.
        lowering: As for `sum_and_largest`.

    Returns:
        ``[m, r]``, or ``[n, r]`` with ``transposed``, in the dtype of ``b``.

    Raises:
        TypeError: A dtype is not as above.
        ValueError: A static rank or shape does not fit, or r is not known.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the shapes do not fit.
    """
    return kernels.matrix_times(
        np.ascontiguousarray(a), np.ascontiguousarray(b), scale=float(scale), transposed=transposed
    )


@also_on(tensors=lambda: _tensorflow.low_rank.low_rank_matrix)
def low_rank_matrix(p: Array, q: Array, *, dtype: Any, scale: Any = 1, lowering: str | None = None) -> Array:
    """``scale p q'``, a column of each after the other, then rounded to ``dtype``.

    Args:
        p: ``[m, r]``, r at least 1 and known while a graph is built, in the `wide_dtype` of ``dtype``.
        q: ``[n, r]``, the dtype of ``p``.
        dtype: float32, float64, bfloat16 or float16.
        scale: A scalar.
        lowering: As for `sum_and_largest`.

    Returns:
        ``[m, n]``; what is too large for the dtype is its largest number.

    Raises:
        TypeError: A dtype is not as above.
        ValueError: A static rank or shape does not fit, or r is not known.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the shapes do not fit.
    """
    shape = p.shape[0], q.shape[0]
    out = take_result(shape[0] * shape[1], np.dtype(dtype))
    factors = np.ascontiguousarray(p), np.ascontiguousarray(q)
    return kernels.low_rank_matrix(*factors, scale=float(scale), dtype=dtype, out=out).reshape(shape)


@also_on(tensors=lambda: _tensorflow.low_rank.low_rank_residual)
def low_rank_residual(a: Array, p: Array, q: Array, *, scale: Any = 1, lowering: str | None = None) -> Array:
    """What `low_rank_matrix` misses of ``a``; over ``a``, which nobody else may have.

    Args:
        a: ``[m, n]``; float32, float64, bfloat16 or float16.
        p: ``[m, r]``, r at least 1 and known while a graph is built, in the `wide_dtype` of ``a``.
        q: ``[n, r]``, the dtype of ``p``.
        scale: A scalar.
        lowering: As for `sum_and_largest`.

    Returns:
        The difference, rounded to the dtype of ``a``. ``[m, n]``.

    Raises:
        TypeError: A dtype is not as above.
        ValueError: A static rank or shape does not fit, or r is not known.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the shapes do not fit.
    """
    factors = np.ascontiguousarray(p), np.ascontiguousarray(q)
    return kernels.low_rank_residual(a, *factors, scale=float(scale), out=a)
