"""The dtype in which numbers of a narrower one are computed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug.ops._dispatch import Array, also_on_tensors

__all__ = ["wide_dtype", "widened"]


@also_on_tensors
def wide_dtype(dtype: Any) -> Any:
    """The dtype for arithmetic with numbers of ``dtype``: float64 for float64, float32 for all others."""
    return np.dtype(np.float64 if np.dtype(dtype) == np.float64 else np.float32)


@also_on_tensors
def widened(x: Array) -> Array:
    """``x`` in its `wide_dtype`."""
    return x.astype(wide_dtype(x.dtype), copy=False)
