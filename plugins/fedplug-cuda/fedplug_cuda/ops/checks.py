"""`fedplug.ops.checks` on a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence

from fedplug.errors import NonFiniteError
from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.arrays import stream_handle
from fedplug_cuda.sums import non_finite_counts

__all__ = ["are_finite", "require_finite"]


def are_finite(xs: Sequence[DeviceArray]) -> list[bool]:
    """Returns whether all elements of each array are finite. Waits once."""
    return [count == 0 for count in non_finite_counts(xs, stream_handle(None, xs[0]))]


def require_finite(x: DeviceArray, what: str) -> DeviceArray:
    """See `fedplug.ops.require_finite`."""
    (count,) = non_finite_counts([x], stream_handle(None, x))
    if count:
        raise NonFiniteError(f"{what} holds a NaN or an infinity", count=count)
    return x
