"""The functions of `fedplug.ops` on whole arrays that sparsifiers call, on a CUDA device."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import ops
from fedplug.errors import ArgumentError, NonFiniteError
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import ArraySpec
from fedplug_cuda.arrays import as_device_array, framework_of, stream_handle
from fedplug_cuda.memory import to_device, to_host
from fedplug_cuda.sums import non_finite_counts, scaled

__all__ = [
    "are_finite",
    "asarray",
    "astype",
    "ensure_shape",
    "multiply",
    "no_residual",
    "on_host",
    "require_finite",
    "widened",
]


def asarray(values: object, like: DeviceArray) -> NDArray[np.generic]:
    """See `fedplug.ops.asarray`. Scalars stay on the host."""
    return ops.asarray(values, ArraySpec((), like.dtype))


def multiply(x: DeviceArray, y: NDArray[np.generic]) -> DeviceArray:
    """See `fedplug.ops.multiply`. ``y`` is a scalar."""
    return scaled(x, y, stream_handle(None, x))


def astype(x: DeviceArray, dtype: Any) -> DeviceArray:
    """See `fedplug.ops.astype`. The framework of the array converts it, or else the host does."""
    wanted = np.dtype(dtype)
    if x.dtype == wanted:
        return x
    if framework_of(x.owner) == "torch":
        return as_device_array(x.owner.to(getattr(sys.modules["torch"], wanted.name)))
    return to_device(to_host(x).astype(wanted), x.device, stream_handle(None, x))


def widened(x: DeviceArray) -> DeviceArray:
    """See `fedplug.ops.widened`."""
    return astype(x, ops.wide_dtype(x.dtype))


def ensure_shape(x: DeviceArray, shape: Sequence[int]) -> DeviceArray:
    """See `fedplug.ops.ensure_shape`."""
    if x.shape != tuple(shape):
        raise ArgumentError(f"an array has shape {x.shape}; it must have {tuple(shape)}")
    return x


def no_residual(x: DeviceArray) -> None:
    """See `fedplug.ops.no_residual`."""
    del x


def on_host(x: DeviceArray) -> NDArray[np.generic]:
    """See `fedplug.ops.device_array.on_host`."""
    return to_host(x)


def are_finite(xs: Sequence[DeviceArray]) -> list[bool]:
    """Returns whether all elements of each array are finite. Waits once."""
    return [count == 0 for count in non_finite_counts(xs, stream_handle(None, xs[0]))]


def require_finite(x: DeviceArray, what: str) -> DeviceArray:
    """See `fedplug.ops.require_finite`."""
    (count,) = non_finite_counts([x], stream_handle(None, x))
    if count:
        raise NonFiniteError(f"{what} holds a NaN or an infinity", count=count)
    return x
