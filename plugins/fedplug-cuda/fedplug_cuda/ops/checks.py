"""`fedplug.ops.checks` on a CUDA device."""

from __future__ import annotations

from fedplug.errors import NonFiniteError
from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.arrays import stream_handle
from fedplug_cuda.sums import require_all_finite

__all__ = ["require_finite"]


def require_finite(x: DeviceArray, what: str) -> DeviceArray:
    """See `fedplug.ops.require_finite`."""
    try:
        require_all_finite(x, stream_handle(None, x))
    except NonFiniteError as error:
        raise NonFiniteError(f"{what} holds a NaN or an infinity", count=error.count) from None
    return x
