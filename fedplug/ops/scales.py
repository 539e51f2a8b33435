"""Scales of values, with the same bits for any number of threads, SIMD level and device.

The scale of a block is its largest magnitude, and that of a whole vector the mean magnitude.
"""

from __future__ import annotations

import numpy as np

from fedplug.kernels.arguments import whole
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.spec import largest_finite
from fedplug.ops.types import Array, Scalar

__all__ = ["block_count", "block_scales", "mean_magnitude"]


@also_on(tensors=lambda: _tensorflow.scales.block_count)
def block_count(count: Array | int, size: int) -> Array | int:
    """The number of blocks of ``size`` that ``count`` values fill. The last one may be partial."""
    return -(-whole("count", count) // whole("size", size, 1))


@also_on(tensors=lambda: _tensorflow.scales.block_scales)
def block_scales(values: Array, size: int) -> Array:
    """The scales of the blocks of ``values[n]``: the largest magnitude of each. ``[block_count(n)]``."""
    magnitudes, size = np.asarray(np.abs(values)), whole("size", size, 1)
    filled = np.concatenate([magnitudes, np.zeros(-len(values) % size, values.dtype)])
    scales: Array = filled.reshape(-1, size).max(axis=1)
    return scales


@also_on(tensors=lambda: _tensorflow.scales.mean_magnitude)
def mean_magnitude(values: Array) -> Scalar:
    """Computes the mean of ``|values|``, a vector; 0 for no values; a scalar of the same dtype.

    `tf.reduce_sum` orders its additions by threads and vector width. This op adds halves to halves in
    float64. Dividing the values first keeps the sum of the largest finite numbers from overflowing. It
    multiplies by the reciprocal count, because TensorFlow turns a division by a constant into that in graphs.
    """
    count = max(len(values), 1)
    parts = np.abs(np.asarray(values).astype(np.float64)) * (1 / np.float64(count))
    while parts.size > 1:
        half = (parts.size + 1) // 2
        parts[: parts.size - half] += parts[half:]
        parts = parts[:half]
    total = parts[0] if parts.size else np.float64(0)
    mean: Scalar = np.minimum(total, largest_finite(values.dtype)).astype(values.dtype)
    return mean
