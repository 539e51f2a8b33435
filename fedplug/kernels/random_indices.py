"""Random indices that two sides draw alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["draw_indices"]


def draw_indices(seed: int, count: int, size: int) -> NDArray[np.int32]:
    """Draws one index of each of ``count`` runs of as nearly equal length as can be.

    Which ones is specified in ``csrc/core/random_indices.h``; they follow from the arguments alone. The
    numbers behind them are those of Philox (Salmon et al., SC 2011).

    Args:
        seed: Other seeds, other indices; in ``[-2**63, 2**63)``.
        count: How many.
        size: How many positions there are; below 2**31.

    Returns:
        ``[count]`` int32, strictly ascending, in ``[0, size)``.

    Raises:
        ArgumentError: Not ``0 <= count <= size < 2**31``.
    """
    return _kernels.draw_indices(seed, count, size)
