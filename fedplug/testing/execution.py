"""The contract of an execution: arrays of one kind for the suites to try an encoder with."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.forking import Say
from fedplug.testing import tensors

__all__ = ["Execution", "Reader"]

Reader = Callable[[Array], Array]
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
    def array(self, values: Any) -> Array:
        """Returns a new array with the shape, dtype and bits of a NumPy array."""

    @abc.abstractmethod
    def round_num(self, number: int) -> Scalar:
        """Returns the number of a round."""

    @abc.abstractmethod
    def is_array(self, value: object) -> bool:
        """Returns whether this is an array of this kind."""

    @abc.abstractmethod
    def numpy(self, x: Array) -> NDArray[Any]:
        """Returns the values of an array, possibly a view."""

    @abc.abstractmethod
    def readers(self, read: Reader) -> tuple[Reader, ...]:
        """Returns a function of a uint8 vector of unknown length, in every way in which it can run."""

    @abc.abstractmethod
    def stacked(self, function: Callable[[Scalar], Scalar], rounds: int) -> NDArray[Any]:
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
