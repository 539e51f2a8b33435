"""Top-k sparsification with error feedback."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import fedplug.kernels as kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on, of_each
from fedplug.ops.donation import place_for, places_for
from fedplug.ops.types import Array, GroupedTopK, Scalar, TopK

_dtype = operator.attrgetter("dtype")

__all__ = ["grouped_topk_residual", "topk_residual"]


@also_on(tensors=lambda: _tensorflow.topk.topk_residual)
def topk_residual(
    delta: Array, residual: Array | None, k: Array | int, *, lowering: str | None = None
) -> TopK:
    """Selects the ``k`` largest entries of ``a = delta + residual``.

    The op selects the ``min(k, n)`` entries of largest magnitude; of equal magnitudes, those with the lower
    index. The new residual is ``a`` with these entries set to zero: scattering the values into it restores
    ``a`` bit for bit. The compiled op and the reference give the same bits, except for denormal numbers: the
    compiled op keeps them, the reference flushes them to zero as TensorFlow does.

    Source: Stich et al., "Sparsified SGD with memory", NeurIPS 2018, algorithm 1.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32 or float64, see
            `widened`.
        residual: The residual of earlier rounds. The shape and dtype of ``delta``.
        k: Number of entries to select, 0 or more. Integer scalar.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: ``k`` is negative, or the shapes differ.
        NonFiniteError: A sum is NaN or infinite.

    Example:
        >>> import numpy as np
        >>> found = topk_residual(np.float32([1, -5, 2]), np.float32([1, 1, 1]), k=2)
        >>> found.values, found.indices, found.residual
        (array([-4.,  3.], dtype=float32), array([1, 2], dtype=int32), array([2., 0., 0.], dtype=float32))
    """
    rest = place_for(residual, delta)
    out = None if rest is residual else rest
    return TopK(*kernels.topk_residual(delta, residual, k, residual_out=out), rest)


_each = of_each(topk_residual, "topk_residual_of_each")


def topk_residual_of_each(deltas: Sequence[Array], residuals: Sequence[Array | None], ks: Any) -> list[TopK]:
    """Applies `topk_residual` to each tensor of a list: arrays of one dtype in one call of a kernel.

    Instead of one k for each tensor, ``ks`` may be a number for all together, see `grouped_topk_residual`. If
    a sum is not finite, all residuals of a list of arrays of one dtype are unchanged.
    """
    shared = type(ks) is not list
    if set(map(type, deltas)) != {np.ndarray} or len(set(map(_dtype, deltas))) > 1:
        if not shared:
            return _each(deltas, residuals, ks)  # type: ignore[no-any-return]
        values, indices, bounds, rest = grouped_topk_residual(deltas, residuals, ks)
    else:
        rest = places_for(residuals, deltas)
        out = None if all(map(operator.is_, rest, residuals)) else rest
        if len(rest) == 1:
            only = None if out is None else out[0]
            found = kernels.topk_residual(deltas[0], residuals[0], ks if shared else ks[0], residual_out=only)
            return [TopK(*found, rest[0])]
        values, indices, splits = kernels.grouped_topk_residual(deltas, residuals, ks, residuals_out=out)
        bounds = splits.tolist()
    chosen = []
    for place, residual in enumerate(rest):
        entries = slice(bounds[place], bounds[place + 1])
        chosen.append(TopK(values[entries], indices[entries], residual))
    return chosen


@also_on(tensors=lambda: _tensorflow.topk.grouped_topk_residual)
def grouped_topk_residual(
    deltas: Sequence[Array],
    residuals: Sequence[Array | None],
    k: Array | int,
    *,
    lowering: str | None = None,
) -> GroupedTopK:
    """Selects the ``k`` largest entries of a list of tensors, as `topk_residual` does of their concatenation.

    The compiled op does not copy the tensors. Of equal magnitudes it selects those in the earlier tensor,
    then those with the lower index. It may select any number of entries from one tensor.

    Args:
        deltas: The update: one tensor or more, any shapes of ``n < 2^31`` elements together, of one dtype out
            of float32 and float64.
        residuals: The residuals of earlier rounds, each with the shape and dtype of its delta.
        k: Number of entries to select from all tensors together, 0 or more. Integer scalar.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: There are no deltas, the numbers of deltas and residuals differ, ``k`` is negative, or
            shapes differ.
        NonFiniteError: A sum is NaN or infinite.
    """
    rest = places_for(residuals, deltas)
    out = None if all(map(operator.is_, rest, residuals)) else rest
    return GroupedTopK(*kernels.grouped_topk_residual(deltas, residuals, k, residuals_out=out), rest)


def chunked_topk_residual(
    delta: Array,
    residual: Array | None,
    k: Array | int,
    *,
    chunk: int,
    decay: Scalar,
) -> TopK:
    """Selects the ``k`` largest entries of every chunk of ``a = delta + decay * residual``.

    A chunk is ``chunk`` consecutive elements of the flattened ``a``. The last one may be shorter. The op
    selects the k entries of largest magnitude from each chunk, or all if there are fewer; of equal
    magnitudes, those with the lower index. The new residual is ``a`` with the selected entries set to zero:
    scattering the values into it restores ``a`` bit for bit. The product and the sum are each rounded once.
    There is no form for TensorFlow's tensors.

    Source: Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo", arXiv 2508.15706,
    algorithm 1.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32 or float64.
        residual: The residual of earlier rounds. The shape and dtype of ``delta``.
        k: Number of entries to select from each chunk, 0 or more. Integer scalar.
        chunk: Number of elements of a chunk, 1 or more.
        decay: The factor of the residual, 0 to 1. Scalar of the dtype.

    Raises:
        ArgumentError: ``k``, ``chunk`` or ``decay`` is out of range, or the shapes differ.
        NonFiniteError: A sum is NaN or infinite.
    """
    rest = place_for(residual, delta)
    values, indices = kernels.chunked_topk_residual(
        delta, residual, k, chunk=chunk, decay=decay, residual_out=None if rest is residual else rest
    )
    return TopK(values, indices, rest)


chunked_topk_residual_of_each = of_each(chunked_topk_residual, "chunked_topk_residual_of_each")
"""Applies `chunked_topk_residual` to each tensor of a list; on a device in one call."""
