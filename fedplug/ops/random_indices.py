"""Random indices that sender and receiver draw alike, so that they are not transmitted."""

from __future__ import annotations

import fedplug.kernels as kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array, Scalar

__all__ = ["draw_indices"]


@also_on(tensors=lambda: _tensorflow.random_indices.draw_indices)
def draw_indices(seed: Scalar, count: Scalar, size: Scalar, *, lowering: str | None = None) -> Array:
    """Draws one index from each of ``count`` ranges of nearly equal length.

    Range i begins at ``floor(i * size / count)``. csrc/core/random_numbers.h specifies which index is drawn.

    Args:
        seed: The seed. int64 scalar.
        count: Number of indices. Integer scalar.
        size: Number of elements that the indices refer to, below 2^31. Integer scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The indices, strictly ascending, in ``[0, size)``. int32 ``[count]``.

    Raises:
        ArgumentError: ``0 <= count <= size < 2^31`` does not hold.
    """
    return kernels.draw_indices(seed, count, size)
