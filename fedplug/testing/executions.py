"""The executions available here: NumPy arrays, TensorFlow's tensors and CUDA arrays.

A check works with ``self.on`` and does not know the kind. It runs on the first kind that the component
declares; one check compares the bits of the others with it. `on_each_execution` marks the checks that need
more than equal bits.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

from fedplug.testing.execution import Cuda, Execution, NumPy, has_device
from fedplug.testing.suite import CannotRun, ComponentSuite, NotApplicable

__all__ = ["OnEachExecution", "installed", "on_each_execution"]

_LACKS = {
    "tensorflow": "TensorFlow is not installed",
    "cuda": "there is no CUDA device, see `fedplug doctor`",
}

_Check = TypeVar("_Check", bound=Callable[..., None])


@functools.cache
def installed(declared: tuple[str, ...]) -> tuple[Execution, ...]:
    """Returns the available ones of these executions, NumPy first. Imports TensorFlow only for its own."""
    found: list[Execution] = [NumPy()] if "numpy" in declared else []
    if "tensorflow" in declared and importlib.util.find_spec("tensorflow") is not None:
        from fedplug.testing.on_tensorflow import TensorFlow

        found.append(TensorFlow())
    return (*found, Cuda()) if "cuda" in declared and has_device() else tuple(found)


class OnEachExecution(ComponentSuite):
    """The base of the suites whose component may accept several kinds of arrays."""

    def executes_on(self) -> tuple[str, ...]:
        """Returns the kinds of arrays that the component declares."""
        component: Any = self.component()
        declared: tuple[str, ...] = component.capabilities.executes_on
        return declared

    def unavailable(self) -> dict[str, str]:
        """Returns why the declared executions that cannot be tried here cannot, by name."""
        there = {execution.name for execution in installed(self.executes_on())}
        return {name: _LACKS[name] for name in self.executes_on() if name not in there}

    def executions(self) -> list[Execution]:
        """Returns the declared executions that are available.

        Raises:
            CannotRun: There are none.
        """
        found = [each for each in installed(self.executes_on()) if each.name not in self.unavailable()]
        if not found:
            raise CannotRun(", ".join(self.unavailable().values()))
        return found

    @functools.cached_property
    def on(self) -> Execution:
        """The current execution. Outside a check, the first."""
        return self.executions()[0]

    def other_executions(self) -> list[Execution]:
        """Returns the executions to compare with that on NumPy arrays.

        Raises:
            NotApplicable: None is declared.
            CannotRun: None of those that are declared can be tried here.
        """
        self.require("numpy")
        others = [execution for execution in self.executions() if execution.name != "numpy"]
        if not others and self.unavailable():
            raise CannotRun(", ".join(self.unavailable().values()))
        if not others:
            raise NotApplicable("it executes on NumPy arrays only")
        return others

    def require(self, name: str) -> None:
        """Sets ``self.on`` to an execution, for a check of only that one.

        Raises:
            NotApplicable: It is not declared.
            CannotRun: It cannot be tried here.
        """
        if name not in self.executes_on():
            raise NotApplicable(f"it does not declare that it executes on {name}")
        if name in (lacking := self.unavailable()):
            raise CannotRun(lacking[name])
        (self.on,) = installed((name,))


def on_each_execution(check: _Check) -> _Check:
    """Runs a check with every execution in turn. It does not apply if it applies to none.

    The attribute ``on_each`` of the result tells it from other checks.
    """

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
                # The same as `add_note`, which Python 3.10 lacks.
                error.__notes__ = [*getattr(error, "__notes__", ()), f"on {execution}"]
                raise
        if len(reasons) == len(executions):
            raise reasons[0]

    on_each.__dict__["on_each"] = True
    return on_each  # type: ignore[return-value]
