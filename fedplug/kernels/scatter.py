"""Adds sparse payloads into one dense array, or makes their dense sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["scatter_decode", "scatter_decode_add"]


def scatter_decode_add(
    accumulator: NDArray[Any],
    values: NDArray[Any],
    indices: NDArray[np.int32],
    row_splits: NDArray[np.int64] | None = None,
    weights: NDArray[Any] | None = None,
) -> None:
    """Adds sparse payloads into one dense array: ``accumulator[index] += weight * value``, payloads in order.

    Payload p owns the entries ``row_splits[p]`` up to ``row_splits[p + 1]`` of ``values`` and ``indices``.
    Every product and every sum is rounded once, in the dtype of the arrays. All indices are checked before
    anything is written. The cost grows with the number of entries and not with the size of the accumulator.

    Args:
        accumulator: The dense sum; any shape, n elements, a floating dtype. Updated in place.
        values: ``[entries]``, the dtype of ``accumulator``.
        indices: ``[entries]`` int32, flat positions in ``accumulator``; within a payload they ascend
            strictly.
        row_splits: ``[payloads + 1]`` int64, from 0 to ``entries``; or None, which stands for one payload.
        weights: ``[payloads]``, the dtype of ``accumulator``; or None, which multiplies nothing.

    Raises:
        ArgumentError: An array cannot be used, sizes do not fit, or an index is out of range or not above the
            one before it; the message names the payload. The accumulator is then unchanged.
    """
    _kernels.scatter_decode_add(accumulator, values, indices, row_splits, weights)


def scatter_decode(
    values: NDArray[Any],
    indices: NDArray[np.int32],
    row_splits: NDArray[np.int64] | None = None,
    weights: NDArray[Any] | None = None,
    *,
    size: int,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Makes the dense sum of sparse payloads: what :func:`scatter_decode_add` makes of +0 everywhere.

    Each element is written once, and added to while it is in the cache. All indices are checked before
    anything is written.

    Args:
        values: ``[entries]``, a floating dtype.
        indices: ``[entries]`` int32, flat positions in the sum; within a payload they ascend strictly.
        row_splits: ``[payloads + 1]`` int64, from 0 to ``entries``; or None, which stands for one payload.
        weights: ``[payloads]``, the dtype of ``values``; or None, which multiplies nothing.
        size: How many elements the sum has; below 2**31. It decides how much memory is taken: it must come
            from where the caller knows it.
        out: ``size`` elements, the dtype of ``values``, to be written over whatever is there.

    Returns:
        ``out``, or a new ``[size]`` array.

    Raises:
        ArgumentError: As for :func:`scatter_decode_add`; or ``size`` is out of range. ``out`` is then
            unchanged.
    """
    return _kernels.scatter_decode(values, indices, row_splits, weights, size, out)
