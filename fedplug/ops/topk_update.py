"""Top-k with error feedback where the residual is a variable, which is updated in place.

What TensorFlow's optimizers do with their slots: no second residual is ever written. Must not know what a
payload is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import donate_residuals
from fedplug.ops.topk import topk_residual
from fedplug.ops.types import Array, GroupedTopKUpdate, OnNonFinite, TopKUpdate

__all__ = ["grouped_topk_residual_update", "topk_residual_update"]


@also_on(tensors=lambda: _tensorflow.topk_update.topk_residual_update)
def topk_residual_update(
    residual: Array, delta: Any, k: Any, *, on_nonfinite: OnNonFinite = "error", lowering: str | None = None
) -> TopKUpdate:
    """Does what `fedplug.ops.topk_residual` does, and leaves the new residual in the variable it came from.

    The compiled op locks the variable and writes into its buffer, or into a new one if somebody still holds
    what was read from it before; that never changes. After an error the variable is what it was. The
    reference reads, and assigns.

    Args:
        residual: What earlier rounds left behind; any shape of ``n < 2^31`` elements; float32, float64,
            bfloat16 or float16.
        delta: The update of this round; shape and dtype of ``residual``.
        k: How many entries to take, an integer scalar, 0 or more.
        on_nonfinite: As for `topk_residual`. The compiled op reads everything twice under "error", because
            it must see every sum before it writes one, and once under "drop".
        lowering: As for `topk_residual`.

    Raises:
        ArgumentError: ``k`` is not a scalar.
        TypeError: ``residual`` is no variable, or not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.FailedPreconditionError: When run: the variable is not initialized.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, the shapes differ, or a sum is not
            finite.
    """
    with donate_residuals():
        taken = topk_residual(delta, residual, k, on_nonfinite=on_nonfinite)
    return TopKUpdate(taken.values, taken.indices, taken.nonfinite)


@also_on(tensors=lambda: _tensorflow.topk_update.grouped_topk_residual_update)
def grouped_topk_residual_update(
    residuals: Sequence[Array],
    deltas: Sequence[Any],
    k: Any,
    *,
    on_nonfinite: OnNonFinite = "error",
    lowering: str | None = None,
) -> GroupedTopKUpdate:
    """Does what `topk_residual_update` does for a whole model: a list of variables, never laid end to end.

    The list is one update: after an error all variables are what they were.

    Args:
        residuals: What earlier rounds left behind; at least one variable, none twice, any shapes, one dtype
            out of float32, float64, bfloat16 and float16.
        deltas: The update of this round; as many, each with shape and dtype of its residual.
        k: How many entries to take: an integer vector with one number for each tensor; or a scalar for all,
            and then the k entries of largest magnitude of all tensors together leave (ties go to the lower
            tensor, then to the lower index), which for this must have fewer than 2^31 elements together.
        on_nonfinite: As for `topk_residual_update`.
        lowering: As for `topk_residual`.

    Raises:
        ArgumentError: There are no residuals, one is listed twice, there are not as many deltas, or ``k`` is
            neither a scalar nor a vector with as many elements.
        TypeError: A residual is no variable, or not of one of these dtypes, or the dtypes differ.
        ValueError: The static shapes of a delta and its residual differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.FailedPreconditionError: When run: a variable is not initialized.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, shapes differ, or a sum is not finite.
    """
    with donate_residuals():
        nonfinite = sum(kernels.count_nonfinite(d, r) for d, r in zip(deltas, residuals, strict=True))
        taken = kernels.grouped_topk_residual(deltas, residuals, k, on_nonfinite=on_nonfinite)
    return GroupedTopKUpdate(*taken, np.int64(nonfinite))
