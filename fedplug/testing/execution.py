"""The contract of an execution, and those on NumPy and CUDA arrays.

An execution makes and reads the arrays of one kind, with which the suites try an encoder.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedplug.errors import PayloadError, PluginError, UnknownNameError
from fedplug.ops.device_array import Backend, is_on_device, on_host
from fedplug.ops.types import Array, ArraySpec, Scalar, Spec
from fedplug.registry import resolve
from fedplug.registry.forking import Say
from fedplug.testing import memory, tensors
from fedplug.testing.child import in_child

__all__ = ["Cuda", "Execution", "NumPy", "Reader", "has_device"]

Reader: TypeAlias = Callable[[Array], Array]
"""A function from bytes to a tensor."""


class Execution(abc.ABC):
    """Makes and reads the arrays of one kind."""

    name: ClassVar[str]
    """The name in `fedplug.registry.specs.Capabilities.executes_on`."""

    refuses: ClassVar[type[Exception]]
    """The error for bytes that no encoder wrote."""

    @abc.abstractmethod
    def spec(self, shape: Sequence[int], dtype: str, name: str | None = None) -> Spec:
        """Returns the spec of an array that encoders are tried with."""

    @abc.abstractmethod
    def array(self, values: ArrayLike) -> Array:
        """Returns a new array with the shape, dtype and bits of a NumPy array."""

    @abc.abstractmethod
    def round_num(self, number: int) -> Scalar:
        """Returns the number of a round."""

    @abc.abstractmethod
    def is_array(self, value: object) -> bool:
        """Returns whether this is an array of this kind."""

    @abc.abstractmethod
    def numpy(self, x: Array) -> NDArray[np.generic]:
        """Returns the values of an array, possibly a view."""

    @abc.abstractmethod
    def readers(self, read: Reader) -> tuple[Reader, ...]:
        """Returns a function of a uint8 vector of unknown length, in every way in which it can run."""

    @abc.abstractmethod
    def stacked(self, function: Callable[[Scalar], Scalar], rounds: int) -> NDArray[np.float64]:
        """Returns the stacked results of a function of the round in the first rounds. float64."""

    @abc.abstractmethod
    def peak_memory(self, action: Callable[[], object], allowance: int) -> int:
        """Returns the most bytes that a call takes at once, see `fedplug.testing.memory`."""

    def isolated(self, check: Callable[[Say], None]) -> None:
        """Runs a check that may crash. It notes each attempt before it begins. Default: in this process."""
        check(lambda what: None)

    def tensor(self, kind: str, spec: Spec, seed: int = 0) -> Array:
        """Returns one of `fedplug.testing.tensors`, new for every call."""
        return self.array(tensors.tensor(kind, spec, seed))

    def operand(self, x: Array) -> Array:
        """Returns an array with the same values that has operators. Default: the same array."""
        return x

    def scalar(self, number: float, spec: Spec) -> Array:
        """Returns a number in a spec's dtype."""
        return self.array(np.array(number, tensors.numpy_dtype(spec)))

    def ones(self, spec: Spec) -> Array:
        """Returns a new array of ones."""
        return self.array(np.ones(tuple(spec.shape), tensors.numpy_dtype(spec)))

    def __repr__(self) -> str:
        return self.name


class NumPy(Execution):
    """Runs encoders eagerly on NumPy arrays."""

    name: ClassVar[str] = "numpy"
    refuses: ClassVar[type[Exception]] = PayloadError

    def spec(self, shape: Sequence[int], dtype: str, name: str | None = None) -> Spec:
        return ArraySpec(tuple(shape), np.dtype(dtype), name)

    def array(self, values: ArrayLike) -> Array:
        return np.array(values)

    def round_num(self, number: int) -> Scalar:
        return number

    def is_array(self, value: object) -> bool:
        return isinstance(value, np.ndarray | np.generic)  # arithmetic makes scalars of arrays of rank 0

    def numpy(self, x: Array) -> NDArray[np.generic]:
        return np.asarray(x)

    def readers(self, read: Reader) -> tuple[Reader, ...]:
        return (read,)

    def stacked(self, function: Callable[[Scalar], Scalar], rounds: int) -> NDArray[np.float64]:
        return np.stack([np.asarray(function(number), np.float64) for number in range(rounds)])

    def isolated(self, check: Callable[[Say], None]) -> None:
        in_child(check)

    def peak_memory(self, action: Callable[[], object], allowance: int) -> int:
        return memory.of_arrays(action, allowance)


class Cuda(NumPy):
    """Gives encoders tensors and accumulators on a CUDA device, or the one that FEDPLUG_CUDA_LIBRARY names.

    Payloads and bytes are NumPy arrays.
    """

    name: ClassVar[str] = "cuda"

    def is_array(self, value: object) -> bool:
        return is_on_device(value) or super().is_array(value)

    def numpy(self, x: Array) -> NDArray[np.generic]:
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
