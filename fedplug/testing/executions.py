"""What an encoder may be given, as the suites see it: NumPy arrays, TensorFlow's tensors.

A check works with ``self.on`` and does not know which of them it is; `on_each_execution` runs it on each that
the component declares. Must not know what is checked, and must not import TensorFlow.
"""

from __future__ import annotations

import abc
import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import PayloadError
from fedplug.ops.types import Array, ArraySpec, Spec
from fedplug.registry.specs import EXECUTIONS
from fedplug.testing import memory, tensors
from fedplug.testing.suite import CannotRun, NotApplicable, Suite

__all__ = ["Execution", "NumPy", "OnEachExecution", "installed", "on_each_execution"]

_Check = TypeVar("_Check", bound=Callable[[Any], None])

Reader = Callable[[Array], Array]
"""From bytes to a tensor."""


class Execution(abc.ABC):
    """Makes the arrays of one kind, and reads them."""

    name: ClassVar[str]
    """As in `fedplug.registry.specs.Capabilities.executes_on`."""

    refuses: ClassVar[type[Exception]]
    """What is raised for bytes that nobody encoded."""

    @abc.abstractmethod
    def spec(self, shape: Sequence[int], dtype: str, name: str | None = None) -> Spec:
        """Of an array that encoders are tried with."""

    @abc.abstractmethod
    def array(self, values: Any) -> Array:
        """A new array with the shape, dtype and bits of one of NumPy."""

    @abc.abstractmethod
    def round_num(self, number: int) -> Array:
        """The number of a round."""

    @abc.abstractmethod
    def is_array(self, value: object) -> bool:
        """Whether this is an array of this kind."""

    @abc.abstractmethod
    def numpy(self, x: Array) -> NDArray[Any]:
        """The values of an array; perhaps a view."""

    @abc.abstractmethod
    def readers(self, read: Reader) -> tuple[Reader, ...]:
        """A function of a uint8 vector whose length is not known before, in every way it can be run."""

    @abc.abstractmethod
    def stacked(self, function: Callable[[Array], Array], rounds: int) -> NDArray[Any]:
        """What a function of the round gives in each of the first, stacked; float64."""

    @abc.abstractmethod
    def peak_memory(self, action: Callable[[], object], allowance: int) -> int:
        """The most bytes that a call takes at once, see `fedplug.testing.memory`."""

    def tensor(self, kind: str, spec: Spec, seed: int = 0) -> Array:
        """One of `fedplug.testing.tensors`, new for every call."""
        return self.array(tensors.tensor(kind, spec, seed))

    def scalar(self, number: float, spec: Spec) -> Array:
        """A number of a spec's dtype."""
        return self.array(np.array(number, tensors.numpy_dtype(spec)))

    def ones(self, spec: Spec) -> Array:
        """A new array of ones."""
        return self.array(np.ones(tuple(spec.shape), tensors.numpy_dtype(spec)))

    def __repr__(self) -> str:
        return self.name


class NumPy(Execution):
    """Arrays of NumPy, on which everything runs at once."""

    name: ClassVar[str] = "numpy"
    refuses: ClassVar[type[Exception]] = PayloadError

    def spec(self, shape: Sequence[int], dtype: str, name: str | None = None) -> Spec:
        return ArraySpec(tuple(shape), np.dtype(dtype), name)

    def array(self, values: Any) -> Array:
        return np.array(values)

    def round_num(self, number: int) -> Array:
        return number

    def is_array(self, value: object) -> bool:
        return isinstance(value, np.ndarray | np.generic)  # arithmetic makes scalars of arrays of rank 0

    def numpy(self, x: Array) -> NDArray[Any]:
        return np.asarray(x)

    def readers(self, read: Reader) -> tuple[Reader, ...]:
        return (read,)

    def stacked(self, function: Callable[[Array], Array], rounds: int) -> NDArray[Any]:
        return np.stack([np.asarray(function(number), np.float64) for number in range(rounds)])

    def peak_memory(self, action: Callable[[], object], allowance: int) -> int:
        return memory.of_arrays(action, allowance)


@functools.cache
def installed() -> tuple[Execution, ...]:
    """All that can be tried here, NumPy first."""
    found: list[Execution] = [NumPy()]
    if importlib.util.find_spec("tensorflow") is not None:
        found.append(importlib.import_module("fedplug.testing.on_tensorflow").TensorFlow())
    return tuple(found)


class OnEachExecution(Suite, abc.ABC):
    """Base of the suites whose component may be given more than one kind of arrays."""

    trying: str = ""
    """The tensor that was encoded last, for errors that do not name it."""

    @abc.abstractmethod
    def executes_on(self) -> tuple[str, ...]:
        """What the component declares."""

    def executions(self) -> list[Execution]:
        """Those that it declares and that can be tried here.

        Raises:
            NotApplicable: There are none.
        """
        declared = self.executes_on()
        found = [execution for execution in installed() if execution.name in declared]
        if not found:
            raise CannotRun("it executes on TensorFlow's tensors only, and TensorFlow is not installed")
        return found

    @functools.cached_property
    def on(self) -> Execution:
        """The one that is being tried; outside a check, the first."""
        return self.executions()[0]

    def all_executions(self) -> list[Execution]:
        """Every execution there is, for checks that compare them.

        Raises:
            NotApplicable: One is not declared, or cannot be tried here.
        """
        for name in EXECUTIONS:
            self.require(name)
        return self.executions()

    def require(self, name: str) -> None:
        """Sets ``self.on`` to an execution, for a check that is about it alone.

        Raises:
            NotApplicable: It is not declared, or cannot be tried here.
        """
        if name not in self.executes_on():
            raise NotApplicable(f"it does not declare that it executes on {name}")
        for execution in installed():
            if execution.name == name:
                self.on = execution
                return
        raise CannotRun("TensorFlow is not installed")


def on_each_execution(check: _Check) -> _Check:
    """Runs a check of a suite with every execution in turn; it does not apply where it never does."""

    @functools.wraps(check)
    def on_each(suite: OnEachExecution) -> None:
        reasons: list[NotApplicable] = []
        executions = suite.executions()
        for execution in executions:
            suite.on = execution
            try:
                check(suite)
            except NotApplicable as reason:
                reasons.append(reason)
            except Exception as error:
                # What `add_note` does, from Python 3.11 on.
                tried = "" if isinstance(error, AssertionError) or not suite.trying else f", {suite.trying}"
                error.__notes__ = [*getattr(error, "__notes__", ()), f"on {execution}{tried}"]
                raise
        if len(reasons) == len(executions):
            raise reasons[0]

    return on_each  # type: ignore[return-value]
