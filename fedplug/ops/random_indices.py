"""Random indices that two sides draw alike, so that they need not travel."""

from __future__ import annotations

from typing import Any

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["draw_indices"]


@also_on(tensors=lambda: _tensorflow.random_indices.draw_indices)
def draw_indices(seed: Any, count: Any, size: Any, *, lowering: str | None = None) -> Array:
    """One index of each of ``count`` runs of as nearly equal length as can be.

    Run i begins at ``floor(i * size / count)``. Which index of it is drawn is specified in
    csrc/core/random_indices.h.

    Args:
        seed: Other seeds, other indices; int64 scalar.
        count: How many; integer scalar.
        size: The number of elements the indices point into, below 2^31; integer scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The indices, strictly ascending, in ``[0, size)``; shape ``[count]``, int32.

    Raises:
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: not ``0 <= count <= size < 2^31``.
    """
    return kernels.draw_indices(int(seed), int(count), int(size))
