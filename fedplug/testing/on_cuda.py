"""The execution on arrays of a CUDA device, or of the fake device that FEDPLUG_CUDA_LIBRARY names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import PluginError, UnknownNameError
from fedplug.ops.device_array import Backend, is_on_device, on_host
from fedplug.ops.types import Array, Spec
from fedplug.registry import resolve
from fedplug.registry.forking import Say
from fedplug.testing.on_numpy import NumPy

__all__ = ["Cuda", "has_device"]


class Cuda(NumPy):
    """Gives encoders tensors and accumulators on a device. Payloads and bytes are NumPy arrays."""

    name: ClassVar[str] = "cuda"

    def is_array(self, value: object) -> bool:
        return is_on_device(value) or super().is_array(value)

    def numpy(self, x: Array) -> NDArray[Any]:
        return np.asarray(on_host(x))

    def isolated(self, check: Callable[[Say], None]) -> None:
        check(lambda what: None)  # a forked process cannot use the device

    def operand(self, x: Array) -> Array:
        return self.numpy(x)

    def tensor(self, kind: str, spec: Spec, seed: int = 0) -> Array:
        return _on_device(super().tensor(kind, spec, seed))

    def ones(self, spec: Spec) -> Array:
        return _on_device(super().ones(spec))


def _on_device(x: Array) -> Array:
    array: Any = _backend().to_device(np.asarray(x))  # `Array` has arithmetic, which it lacks
    on_device: Array = array
    return on_device


@functools.cache
def has_device() -> bool:
    """Returns whether the backend of CUDA is installed and finds a device."""
    try:
        return _backend().problem() is None
    except (PluginError, UnknownNameError, ImportError):
        return False


def _backend() -> Backend:
    return resolve.resolve("device", "cuda")  # type: ignore[return-value]
