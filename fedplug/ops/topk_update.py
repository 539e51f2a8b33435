"""Top-k sparsification with error feedback, with residuals in variables that are updated in place.

TensorFlow's optimizers update their slots in the same way: there is never a second residual.
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
    """Selects as `fedplug.ops.topk_residual` does, and writes the new residual to its variable.

    The compiled op locks the variable and writes to its buffer. If an earlier read still uses the buffer, it
    writes to a new one. A failed call leaves the variable unchanged. The reference reads the variable and
    assigns to it.

    Args:
        residual: The residual of earlier rounds, a variable; any shape of ``n < 2^31`` elements; float32,
            float64.
        delta: The update; the shape and dtype of ``residual``.
        k: Number of entries to select, 0 or more; integer scalar.
        on_nonfinite: See `topk_residual`. The compiled op reads the arrays twice under "error", because it
            must check every sum before it writes, and once under "drop".
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: ``k`` is negative or not a scalar, or the shapes differ.
        TypeError: ``residual`` is not a variable, or has another dtype.
        NonFiniteError: A sum is NaN or infinite, under "error".
        UnknownNameError: ``on_nonfinite`` has another value (in TensorFlow only).
        tf.errors.FailedPreconditionError: The variable is not initialized.
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
    """Selects as `topk_residual_update` does, from a list of variables, which are not copied.

    The list is one update: a failed call leaves all variables unchanged.

    Args:
        residuals: The residuals of earlier rounds: one variable or more, all different, any shapes, one dtype
            out of float32 and float64.
        deltas: The update, each with the shape and dtype of its residual.
        k: Number of entries to select. A vector has one number for each tensor. A scalar selects from all
            tensors together, as in `grouped_topk_residual`; these must have fewer than 2^31 elements.
        on_nonfinite: See `topk_residual_update`.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: There are no residuals, one is listed twice, the numbers of residuals and deltas
            differ, shapes differ, or ``k`` is negative or neither a scalar nor a vector of that length.
        TypeError: A residual is not a variable, or the dtypes differ.
        NonFiniteError: A sum is NaN or infinite, under "error".
        UnknownNameError: ``on_nonfinite`` has another value (in TensorFlow only).
        tf.errors.FailedPreconditionError: A variable is not initialized.
    """
    with donate_residuals():
        nonfinite = sum(kernels.count_nonfinite(d, r) for d, r in zip(deltas, residuals, strict=True))
        taken = kernels.grouped_topk_residual(deltas, residuals, k, on_nonfinite=on_nonfinite)
    return GroupedTopKUpdate(*taken, np.int64(nonfinite))
