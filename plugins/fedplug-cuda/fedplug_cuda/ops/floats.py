"""`fedplug.ops.floats` on a CUDA device."""

from __future__ import annotations

from fedplug import ops
from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.ops.arrays import astype

__all__ = ["widened"]


def widened(x: DeviceArray) -> DeviceArray:
    """See `fedplug.ops.widened`."""
    return astype(x, ops.wide_dtype(x.dtype))
