"""Sparse payloads: adds entries to a dense sum, and takes those at given indices out of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fedplug.kernels as kernels
from fedplug.kernels.arguments import whole, whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.checks import require_finite
from fedplug.ops.dispatch import also_on, of_each
from fedplug.ops.donation import donate_residuals, own, place_for, take_result
from fedplug.ops.types import Array, DType, TakenFromSum

__all__ = ["scatter_decode", "scatter_decode_add", "take_from_sum"]


@also_on(tensors=lambda: _tensorflow.scatter.scatter_decode_add)
def scatter_decode_add(
    accumulator: Array,
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    lowering: str | None = None,
) -> Array:
    """Adds sparse payloads to a dense accumulator.

    Computes ``accumulator[indices[j]] += weights[i] * values[j]`` for every payload ``i``, in order, and its
    entries ``j`` from ``row_splits[i]`` up to ``row_splits[i + 1]``. Each product and each sum is rounded
    once. All payloads are checked before anything is added. The compiled op and the reference give the same
    bits, except for the bits of a NaN and for denormal numbers: the compiled op keeps these, the reference
    flushes them to zero as TensorFlow does (except in float16).

    Args:
        accumulator: The dense sum; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or float16.
        values: The values of all payloads, one after the other. ``[e]``, the dtype of ``accumulator``.
        indices: Their flat indices, strictly ascending within a payload. int32 ``[e]``.
        row_splits: The bounds of the payloads. int64 ``[p + 1]``, ascending from 0 to ``e``. None means one
            payload.
        weights: The factors of the payloads. ``[p]``, the dtype of ``accumulator``. None means 1.
        lowering: See `fedplug.ops`.

    Returns:
        The new accumulator, of the same shape and dtype.

    Raises:
        ArgumentError: Lengths differ, or a payload is invalid. The message names it.
    """
    total = own(np.asarray(accumulator))
    kernels.scatter_decode_add(total, *_payloads(values, indices, row_splits, weights, total.dtype))
    return total


_add_each = of_each(scatter_decode_add, "add_selected")


def add_selected(
    residuals: Sequence[Array], values: Sequence[Array], indices: Sequence[Array]
) -> list[Array]:
    """Adds entries to each residual of a list, as `scatter_decode_add` does to one.

    Args:
        residuals: The residuals that a selection returned, which the caller gives up: arrays are written
            over. On a device this takes one copy and one launch for the list.
        values: The numbers to add to each.
        indices: The indices that the selection returned for each.
    """
    if set(map(type, residuals)) != {np.ndarray}:
        with donate_residuals():
            return _add_each(residuals, values, indices)  # type: ignore[no-any-return]
    for residual, each, places in zip(residuals, values, indices, strict=True):
        at = places if places.dtype == np.int32 else whole_numbers("indices", places, np.int32)
        kernels.scatter_decode_add(residual, np.asarray(each, residual.dtype), at)
    return list(residuals)


@also_on(tensors=lambda: _tensorflow.scatter.scatter_decode)
def scatter_decode(
    size: Array | int,
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    lowering: str | None = None,
) -> Array:
    """Computes the dense sum of sparse payloads: the bits that `scatter_decode_add` gives for zeros.

    The compiled op writes each element once, which is faster than adding to zeros.

    Args:
        size: Number of elements of the sum, below 2^31. Integer scalar.
        values: See `scatter_decode_add`. float32, float64, bfloat16 or float16.
        indices: See `scatter_decode_add`.
        row_splits: See `scatter_decode_add`.
        weights: See `scatter_decode_add`.
        lowering: See `fedplug.ops`.

    Returns:
        The sum. ``[size]``, the dtype of ``values``.

    Raises:
        ArgumentError: ``size`` is out of range, lengths differ, or a payload is invalid.
    """
    size, values = whole("size", size), np.asarray(values)
    payloads = _payloads(values, indices, row_splits, weights, values.dtype)
    return kernels.scatter_decode(*payloads, size=size, out=take_result(size, values.dtype))


def _payloads(
    values: Array, indices: Array, row_splits: Array | None, weights: Array | None, dtype: DType
) -> tuple[Array, Array, Array | None, Array | None]:
    splits = None if row_splits is None else whole_numbers("row_splits", row_splits, np.int64)
    factors = None if weights is None else np.asarray(weights, dtype)
    return np.asarray(values, dtype), whole_numbers("indices", indices, np.int32), splits, factors


@also_on(tensors=lambda: _tensorflow.scatter.take_from_sum)
def take_from_sum(
    delta: Array, residual: Array | None, indices: Array, *, lowering: str | None = None
) -> TakenFromSum:
    """Takes the entries of ``a = delta + residual`` at ``indices``.

    The new residual is ``a`` with these entries set to zero: scattering the values into it restores ``a`` bit
    for bit. The compiled op keeps denormal numbers. The reference flushes them to zero, as TensorFlow does.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32 or float64.
        residual: The residual of earlier rounds. The shape and dtype of ``delta``.
        indices: Flat indices, strictly ascending. int32 ``[k]``.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: The shapes differ, or the indices are out of range or do not ascend.
        NonFiniteError: A sum is NaN or infinite.
    """
    rest = place_for(residual, delta)
    places = whole_numbers("indices", indices, np.int32)
    values = kernels.take_from_sum(delta, residual, places, residual_out=None if rest is residual else rest)
    return TakenFromSum(values, rest)


take_from_sum_of_each = of_each(take_from_sum, "take_from_sum_of_each")
"""Applies `take_from_sum` to each tensor of a list; on a device in one call."""


@also_on(tensors=lambda: _tensorflow.scatter.gather_finite)
def gather_finite(x: Array, indices: Array) -> Array:
    """Returns the entries of an update at strictly ascending flat indices.

    Raises:
        NonFiniteError: The update holds a NaN or an infinity. A graph does not check.
    """
    return kernels.gather(require_finite(x, "the update"), whole_numbers("indices", indices, np.int32))


gather_finite_of_each = of_each(gather_finite, "gather_finite_of_each")
"""Applies `gather_finite` to each tensor of a list; on a device in one call."""
