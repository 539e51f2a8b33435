"""Top-k sparsification with error feedback.

The same where the residual is a variable: `fedplug.ops.topk_update`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels
from fedplug.ops import _cuda, _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for
from fedplug.ops.types import GroupedTopK, IndexForm, OnNonFinite, TopK

__all__ = ["frame_topk", "grouped_topk_residual", "topk_residual"]


@also_on(tensors=lambda: _tensorflow.topk.topk_residual, devices=lambda: _cuda.topk.topk_residual)
def topk_residual(
    delta: Any, residual: Any, k: Any, *, on_nonfinite: OnNonFinite = "error", lowering: str | None = None
) -> TopK:
    """Takes the ``k`` largest entries out of ``a = delta + residual`` and keeps the rest for the next round.

    Exactly ``min(k, n)`` entries of largest magnitude leave; ties go to the lower index. The residual is
    ``a`` with these entries set to zero, so scattering the values into it gives ``a`` back, bit for bit. Not
    differentiable.

    The compiled op keeps denormal numbers; the reference takes them for zero, as TensorFlow's threads do
    (float16, whose denormals are computed in float32, is not affected). Everything else is the same, bit for
    bit.

    Source: Stich et al., "Sparsified SGD with memory", NeurIPS 2018, algorithm 1.

    Args:
        delta: The update of this round; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        residual: What earlier rounds left behind; shape and dtype of ``delta``.
        k: How many entries to take, an integer scalar, 0 or more.
        on_nonfinite: "error" refuses an update in which a sum is NaN or infinite; "drop" takes such a sum for
            zero.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Raises:
        TypeError: ``delta`` is not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, the shapes differ, or a sum is not
            finite.
    """
    rest = place_for(residual, delta)
    nonfinite = _nonfinite([delta], [residual], on_nonfinite)
    out = None if rest is residual else rest
    values, indices = kernels.topk_residual(
        delta, residual, int(k), on_nonfinite=on_nonfinite, residual_out=out
    )
    return TopK(values, indices, rest, nonfinite)


def frame_topk(
    delta: NDArray[Any], residual: NDArray[Any] | None, k: int, header: bytes, *, form: IndexForm = "rice"
) -> tuple[bytes, NDArray[Any]]:
    """What `topk_residual` takes out of a NumPy array, in the container of a payload; and the residual.

    See `fedplug.kernels.frame_topk`.
    """
    rest = place_for(residual, delta)
    out = None if rest is residual else rest
    return kernels.frame_topk(delta, residual, k, header, form=form, residual_out=out), rest


@also_on(
    tensors=lambda: _tensorflow.topk.grouped_topk_residual, devices=lambda: _cuda.topk.grouped_topk_residual
)
def grouped_topk_residual(
    deltas: Sequence[Any],
    residuals: Sequence[Any],
    k: Any,
    *,
    on_nonfinite: OnNonFinite = "error",
    lowering: str | None = None,
) -> GroupedTopK:
    """Does what `topk_residual` does for a list of tensors laid end to end, which the compiled op never are.

    Exactly ``min(k, n)`` of all n entries leave, those of largest magnitude; ties go to the lower tensor,
    then to the lower index. A tensor may lose many entries or none. What `topk_residual` says of denormal
    numbers holds.

    Args:
        deltas: The update of this round; at least one tensor, any shapes of ``n < 2^31`` elements together;
            all of float32, float64, bfloat16 or float16.
        residuals: What earlier rounds left behind; as many, each with shape and dtype of its delta.
        k: How many entries to take of all tensors together, an integer scalar, 0 or more.
        on_nonfinite: As for `topk_residual`.
        lowering: As for `topk_residual`.

    Raises:
        ArgumentError: There are no deltas, or not as many residuals as deltas.
        TypeError: A delta is not of one of these dtypes, or the dtypes differ.
        ValueError: The static shapes of a delta and its residual differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, shapes differ, or a sum is not finite.
    """
    rest = [place_for(r, d) for r, d in zip(residuals, deltas, strict=True)]
    nonfinite = _nonfinite(deltas, residuals, on_nonfinite)
    out = None if all(new is old for new, old in zip(rest, residuals, strict=True)) else rest
    taken = kernels.grouped_topk_residual(
        deltas, residuals, int(k), on_nonfinite=on_nonfinite, residuals_out=out
    )
    return GroupedTopK(*taken, rest, nonfinite)


def _nonfinite(deltas: Sequence[Any], residuals: Sequence[Any], on_nonfinite: str) -> np.int64:
    """How many sums "drop" takes for zero; under "error" there are none where anything is returned."""
    if on_nonfinite != "drop":
        return np.int64(0)
    return np.int64(sum(kernels.count_nonfinite(d, r) for d, r in zip(deltas, residuals, strict=True)))
