"""Top-k sparsification with error feedback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on, of_each
from fedplug.ops.donation import place_for
from fedplug.ops.types import GroupedTopK, IndexForm, OnNonFinite, TopK

__all__ = ["frame_topk", "grouped_topk_residual", "topk_residual", "topk_residual_of_each"]


@also_on(tensors=lambda: _tensorflow.topk.topk_residual)
def topk_residual(
    delta: Any, residual: Any, k: Any, *, on_nonfinite: OnNonFinite = "error", lowering: str | None = None
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
        residual: The residual of earlier rounds; the shape and dtype of ``delta``.
        k: Number of entries to select, 0 or more; integer scalar.
        on_nonfinite: "error" refuses an update with a NaN or infinite sum; "drop" counts such sums as zero.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: ``k`` is negative, or the shapes differ.
        NonFiniteError: A sum is NaN or infinite, under "error".
        UnknownNameError: ``on_nonfinite`` has another value (in TensorFlow only).

    Example:
        >>> import numpy as np
        >>> found = topk_residual(np.float32([1, -5, 2]), np.float32([1, 1, 1]), k=2)
        >>> found.values, found.indices, found.residual
        (array([-4.,  3.], dtype=float32), array([1, 2], dtype=int32), array([2., 0., 0.], dtype=float32))
    """
    rest = place_for(residual, delta)
    nonfinite = _nonfinite([delta], [residual], on_nonfinite)
    out = None if rest is residual else rest
    values, indices = kernels.topk_residual(delta, residual, k, on_nonfinite=on_nonfinite, residual_out=out)
    return TopK(values, indices, rest, nonfinite)


topk_residual_of_each = of_each(topk_residual, "topk_residual_of_each")
"""Does what `topk_residual` does for each tensor of a list; on a device in one call."""


def frame_topk(
    delta: NDArray[Any], residual: NDArray[Any] | None, k: int, header: bytes, *, form: IndexForm = "rice"
) -> tuple[bytes, NDArray[Any]]:
    """Selects as `topk_residual` does; returns a container of the entries, and the new residual.

    See `fedplug.kernels.frame_topk`.
    """
    rest = place_for(residual, delta)
    out = None if rest is residual else rest
    return kernels.frame_topk(delta, residual, k, header, form=form, residual_out=out), rest


@also_on(tensors=lambda: _tensorflow.topk.grouped_topk_residual)
def grouped_topk_residual(
    deltas: Sequence[Any],
    residuals: Sequence[Any],
    k: Any,
    *,
    on_nonfinite: OnNonFinite = "error",
    lowering: str | None = None,
) -> GroupedTopK:
    """Selects the ``k`` largest entries of a list of tensors, as `topk_residual` does of their concatenation.

    The compiled op does not copy the tensors. Of equal magnitudes it selects those in the earlier tensor,
    then those with the lower index. It may select any number of entries from one tensor.

    Args:
        deltas: The update: one tensor or more, any shapes of ``n < 2^31`` elements together, of one dtype out
            of float32 and float64.
        residuals: The residuals of earlier rounds, each with the shape and dtype of its delta.
        k: Number of entries to select from all tensors together, 0 or more; integer scalar.
        on_nonfinite: See `topk_residual`.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: There are no deltas, the numbers of deltas and residuals differ, ``k`` is negative, or
            shapes differ.
        NonFiniteError: A sum is NaN or infinite, under "error".
        UnknownNameError: ``on_nonfinite`` has another value (in TensorFlow only).
    """
    rest = [place_for(r, d) for r, d in zip(residuals, deltas, strict=True)]
    nonfinite = _nonfinite(deltas, residuals, on_nonfinite)
    out = None if all(new is old for new, old in zip(rest, residuals, strict=True)) else rest
    taken = kernels.grouped_topk_residual(deltas, residuals, k, on_nonfinite=on_nonfinite, residuals_out=out)
    return GroupedTopK(*taken, rest, nonfinite)


def _nonfinite(deltas: Sequence[Any], residuals: Sequence[Any], on_nonfinite: str) -> np.int64:
    """Counts the sums that "drop" sets to zero. Under "error" there are none in any result."""
    if on_nonfinite != "drop":
        return np.int64(0)
    return np.int64(sum(kernels.count_nonfinite(d, r) for d, r in zip(deltas, residuals, strict=True)))
