"""Random indices that two sides draw alike, so that they need not travel."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._arguments import as_int64
from fedplug.ops._reference import random_indices as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["draw_indices"]

tf.no_gradient("Fedplug>DrawIndices")


def draw_indices(seed: Any, count: Any, size: Any, *, lowering: str | None = None) -> tf.Tensor:
    """One index of each of ``count`` runs of as nearly equal length as can be.

    Run i begins at ``floor(i * size / count)``. Which index of it is drawn is specified in
    csrc/core/random_indices.h.

    Args:
        seed: Other seeds, other indices; int64 scalar.
        count: How many; integer scalar.
        size: The number of elements the indices point into, below 2^31; integer scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        The indices, strictly ascending, in ``[0, size)``; shape ``[count]``, int32.

    Raises:
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: not ``0 <= count <= size < 2^31``.
    """
    seed, count, size = as_int64(seed), as_int64(count), as_int64(size)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_draw_indices(seed, count, size)
    return reference.draw_indices(seed, count, size)
