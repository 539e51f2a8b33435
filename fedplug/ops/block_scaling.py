"""Blocks of equal size in a vector, each with its largest magnitude as its scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug.errors import PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.serialization import from_bytes
from fedplug.ops.types import Array

__all__ = ["block_count", "block_scales", "scales_from_bytes"]


def block_count(count: Array | int, size: int) -> Array | int:
    """The number of blocks of ``size`` that ``count`` values fill; the last one may be partial."""
    return (count + size - 1) // size


@also_on(tensors=lambda: _tensorflow.block_scaling.block_scales)
def block_scales(values: Array, size: int) -> Array:
    """The scales of the blocks of ``values[n]``: the largest magnitude of each; ``[block_count(n)]``."""
    magnitudes = np.abs(values)
    filled = np.concatenate([magnitudes, np.zeros(-values.size % size, values.dtype)])
    return filled.reshape(-1, size).max(axis=1)


@also_on(tensors=lambda: _tensorflow.block_scaling.scales_from_bytes)
def scales_from_bytes(data: Array, dtype: Any, what: str) -> Array:
    """Reads scales that `to_bytes` wrote, from untrusted bytes.

    Raises:
        PayloadError: A scale is negative or not finite. -0 counts as negative, so that zero has one code.
    """
    scales = from_bytes(data, dtype)
    if not np.isfinite(scales).all() or np.signbit(scales).any():
        raise PayloadError(f"a scale of {what} is not valid")
    return scales
