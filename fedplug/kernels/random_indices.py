"""Random indices that sender and receiver draw alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug import _kernels
from fedplug.kernels.arguments import whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["draw_indices"]


def draw_indices(seed: int, count: int, size: int) -> NDArray[np.int32]:
    """Draws one index from each of ``count`` ranges of nearly equal length.

    The indices depend on the arguments alone, as ``csrc/core/random_indices.h`` specifies. Their random
    numbers are those of Philox (Salmon et al., SC 2011).

    Args:
        seed: The seed, in ``[-2**63, 2**63)``.
        count: Number of indices.
        size: Number of elements that the indices refer to; below 2**31.

    Returns:
        ``[count]`` int32, strictly ascending, in ``[0, size)``.

    Raises:
        ArgumentError: ``0 <= count <= size < 2**31`` does not hold.
    """
    return _kernels.draw_indices(whole("seed", seed), whole("count", count), whole("size", size))
