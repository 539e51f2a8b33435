"""Adds sparse payloads to a dense array, or computes their dense sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fedplug._kernels as _kernels
from fedplug.kernels.arguments import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedplug.types import Array

__all__ = ["scatter_decode"]


def scatter_decode(
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    size: int,
    out: Array | None = None,
) -> NDArray[Any]:
    """Computes the dense sum of sparse payloads, as :func:`scatter_decode_add` adds them to +0 everywhere.

    Each element is written once, and receives its entries while it is in the cache. All indices are checked
    before anything is written.

    Args:
        values: ``[entries]``, a floating dtype.
        indices: Flat indices, strictly ascending within a payload. ``[entries]`` int32.
        row_splits: ``[payloads + 1]`` int64, from 0 to ``entries``. None for one payload.
        weights: ``[payloads]``, the dtype of ``values``. None for weights of 1.
        size: Number of elements of the sum. Below 2**31. It determines how much memory is allocated, so it
            must come from a trusted source.
        out: An array for the sum. ``size`` elements, the dtype of ``values``.

    Returns:
        ``out``, or a new ``[size]`` array.

    Raises:
        ArgumentError: ``size`` is out of range, or see :func:`scatter_decode_add`. ``out`` is unchanged.
    """
    return _kernels.scatter_decode(values, indices, row_splits, weights, whole("size", size), out)
