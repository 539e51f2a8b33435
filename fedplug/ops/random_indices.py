"""Random indices that two sides draw alike: the compiled op. Must not know what is indexed.

The twin is with its user, in `fedplug.encoders.sparsifiers.randomk`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._checks import as_int64

__all__ = ["draw_indices"]

tf.no_gradient("Fedplug>DrawIndices")


def draw_indices(seed: Any, count: Any, size: Any) -> tf.Tensor:
    """One index of each of ``count`` runs of as nearly equal length as can be.

    Which ones is specified in csrc/core/random_indices.h.

    Args:
        seed: Other seeds, other indices; int64 scalar.
        count: How many; integer scalar.
        size: The number of elements the indices point into, below 2^31; integer scalar.

    Returns:
        The indices, strictly ascending, in ``[0, size)``; shape ``[count]``, int32.

    Raises:
        OpLibraryError: The op library cannot be loaded.
        tf.errors.InvalidArgumentError: When run: not ``0 <= count <= size < 2^31``.
    """
    return _loader.library().fedplug_draw_indices(as_int64(seed), as_int64(count), as_int64(size))
