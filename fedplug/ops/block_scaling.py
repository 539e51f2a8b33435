"""Blocks of equal size in a vector, each with its largest magnitude as its scale."""

from __future__ import annotations

import numpy as np

from fedplug.kernels.arguments import whole
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["block_count", "block_scales"]


@also_on(tensors=lambda: _tensorflow.block_scaling.block_count)
def block_count(count: Array | int, size: int) -> Array | int:
    """The number of blocks of ``size`` that ``count`` values fill. The last one may be partial."""
    return -(-whole("count", count) // whole("size", size, 1))


@also_on(tensors=lambda: _tensorflow.block_scaling.block_scales)
def block_scales(values: Array, size: int) -> Array:
    """The scales of the blocks of ``values[n]``: the largest magnitude of each. ``[block_count(n)]``."""
    magnitudes, size = np.asarray(np.abs(values)), whole("size", size, 1)
    filled = np.concatenate([magnitudes, np.zeros(-len(values) % size, values.dtype)])
    scales: Array = filled.reshape(-1, size).max(axis=1)
    return scales
