"""Arrays in the memory of a device, and the backend that computes with them.

A package registers a backend under the hook ``fedplug_devices``, and its arrays name it: no file of fedplug
imports one. fedplug-cuda is the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedplug.ops.types import PackedValues

__all__ = ["Backend", "DeviceArray", "is_on_device", "on_host"]


class Backend(Protocol):
    """The functions of a device: an object or a module.

    A backend also has the ops of `fedplug.ops` for which it has kernels, under their names and with their
    arguments, and ``NAME_of_each``, which takes lists, of those that have such a form. Ops without a function
    raise `CapabilityError`.
    """

    def problem(self) -> str | None:
        """Returns why no device can be used here, with the remedy. None if one can."""

    def self_check(self) -> str:
        """Compares a kernel with the CPU's. Returns a line for `fedplug doctor`."""

    def as_device_array(self, array: object) -> DeviceArray:
        """Describes an array of any framework on the device, without a copy."""

    def to_device(self, array: NDArray[np.generic]) -> DeviceArray:
        """Copies an array to the device."""

    def on_host(self, x: DeviceArray) -> NDArray[np.generic]:
        """Copies an array to the host."""

    def copied(self, x: DeviceArray) -> DeviceArray:
        """Returns a copy on the same device."""

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[np.generic], like: DeviceArray) -> DeviceArray:
        """Makes an array of zeros on the device of ``like``, in memory of the framework that owns it."""

    def encode_values(
        self,
        xs: Sequence[DeviceArray],
        residuals: Sequence[object] | None,
        form: str,
        *,
        bits: int,
        block_size: int,
        seed: int,
    ) -> tuple[list[NDArray[np.uint8]], list[DeviceArray]]:
        """Returns the codes of arrays, on the host, and their residuals. See `fedplug.ops.value_code`."""

    def write(
        self, out: DeviceArray, values: NDArray[np.generic] | PackedValues, indices: NDArray[np.int32] | None
    ) -> None:
        """Writes a payload over an array: all elements, which may be a code, or entries among zeros.

        Raises:
            PayloadError: The indices do not ascend strictly in the array, whose contents are then undefined.
        """

    def prepared(self, additions: Sequence[object]) -> tuple[list[partial[int]], object]:
        """Prepares the kernel of one or more `fedplug.codecs.accumulator.AddOnDevice`.

        Returns:
            C functions to call, which return 0 or a status, and the objects that they need until then.
        """

    def refusal(self) -> Exception:
        """Returns the error of a function from `prepared` that returned a status."""

    def divide(self, arrays: Sequence[DeviceArray], divisor: float) -> None:
        """Divides arrays by a number, which is rounded to the dtype of each, in place."""

    def largest_of_each(self, arrays: Sequence[DeviceArray]) -> list[float]:
        """Returns the largest magnitude of the finite elements of each array; 0 if there is none."""

    def are_finite(self, xs: Sequence[DeviceArray]) -> list[bool]:
        """Returns whether all elements of each array are finite."""


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """A C-contiguous array in the memory of a device. Each backend has a subclass.

    Attributes:
        owner: The framework's array, which keeps the memory alive.
        pointer: Address of the first element.
        shape: Its shape.
        dtype: Its dtype, as NumPy's (bfloat16 from ml_dtypes).
        device: Number of the device.
    """

    owner: object
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    device: int

    @property
    def backend(self) -> Backend:
        """The functions of its device."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize


def is_on_device(x: object) -> bool:
    """Whether an array is in the memory of a device."""
    return isinstance(x, DeviceArray)


def on_host(x: object) -> Any:
    """Copies a `DeviceArray` to a NumPy array. Returns other arrays unchanged."""
    return x.backend.on_host(x) if isinstance(x, DeviceArray) else x
