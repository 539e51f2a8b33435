"""Arrays in the memory of a CUDA device.

The package fedplug-cuda makes these arrays and has the ops for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedplug.ops import _cuda

__all__ = ["DeviceArray", "is_on_device", "on_host"]


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """A C-contiguous array in the memory of a CUDA device; `fedplug_cuda.as_device_array` makes it.

    Attributes:
        owner: The framework's array, which keeps the memory alive.
        pointer: Address of the first element.
        shape: Its shape.
        dtype: Its dtype, as NumPy's (bfloat16 from ml_dtypes).
        device: Number of the CUDA device.
    """

    owner: Any
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize


def is_on_device(x: Any) -> bool:
    """Whether an array is in the memory of a device."""
    return isinstance(x, DeviceArray)


def on_host(x: Any) -> Any:
    """Copies a `DeviceArray` to a NumPy array; returns other arrays unchanged."""
    return _cuda.arrays.on_host(x) if is_on_device(x) else x
