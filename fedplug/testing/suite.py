"""The base of all suites. A check is a method ``test_*`` without arguments that raises if it fails.

pytest finds and runs such methods. `run` does so without pytest.
"""

from __future__ import annotations

import abc
import json
import re
import sys
import traceback
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from fedplug.registry.component import Component
from fedplug.testing import expect

__all__ = ["CannotRun", "ComponentSuite", "NotApplicable", "Result", "Suite", "after", "run"]

NotApplicable = unittest.SkipTest
"""Raised by a check that does not apply to this component. Pytest counts it as a skip."""


class CannotRun(NotApplicable):
    """Raised by a check that applies but cannot run here, because something is not installed."""


_NOT_THE_AUTHORS = {"fedplug", "numpy", "tensorflow", "tensorflow_federated", *sys.stdlib_module_names}
"""Packages whose lines do not help an author to find an error."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")

_Function = TypeVar("_Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Result:
    """The result of one check.

    Attributes:
        check: The name of the method.
        status: ``"skip"`` if it does not apply, or if a check that it needs failed.
        reason: The reason of a failure or a skip, in one line. Empty if it is ok.
        not_run: Whether it was skipped although it applies.
        waits_for: The failed check that must pass first. Empty if there is none.
    """

    check: str
    status: Literal["ok", "fail", "skip"]
    reason: str = ""
    not_run: bool = False
    waits_for: str = ""

    @property
    def promise(self) -> str:
        """Returns the name as a sentence."""
        return self.check.removeprefix("test_").replace("_", " ")


def after(*checks: str) -> Callable[[_Function], _Function]:
    """Marks a check that `run` skips if one of these checks failed."""

    def mark(function: _Function) -> _Function:
        function.__dict__["after"] = checks
        return function

    return mark


class Suite:
    """Base class of the suites. A subclass defines the component. Every check gets a new instance."""

    foundation: ClassVar[str] = ""
    """The check that all later checks need."""

    trying: str = ""
    """The last input, for errors that do not name it."""

    @classmethod
    def checks(cls) -> list[str]:
        """Returns the names of the checks in source order, bases first."""
        names = [name for base in reversed(cls.__mro__) for name in vars(base) if name.startswith("test_")]
        return list(dict.fromkeys(names))


class ComponentSuite(Suite, abc.ABC):
    """The base of the suites of components of the registry."""

    @abc.abstractmethod
    def component(self) -> Component:
        """Returns a new component, always with the same configuration."""

    def declaring(self, capability: str) -> Any:
        """Returns a new component. The check does not apply if it does not declare the capability."""
        component: Any = self.component()
        declared = getattr(component.capabilities, capability)
        if declared is None or declared is False:  # an error bound may be 0
            raise NotApplicable(f"it does not declare {capability}")
        return component

    def test_it_has_a_name_for_the_registry(self) -> None:
        name = self.component().name
        expect.that(
            isinstance(name, str) and _NAME.fullmatch(name),
            f"the name {name!r} is not valid; use lower-case letters, digits and '_', starting with a letter",
        )

    def test_its_config_survives_json_and_makes_an_equal_component(self) -> None:
        component = self.component()
        config = component.get_config()
        text = json.dumps(config)
        read = json.loads(text)
        expect.that(
            read == config, f"get_config() is {config!r}, and {read!r} after JSON; use JSON values only"
        )
        again = type(component).from_config(read)
        expect.that(again == component, f"from_config({text}) makes {again!r}, which is not {component!r}")
        other = again.get_config()
        expect.that(other == config, f"from_config({text}) has the config {other!r}")


def run(suite: type[Suite], say: Callable[[str], None] = lambda promise: None) -> Iterator[Result]:
    """Runs every check of a suite, and continues after failures.

    Args:
        suite: The suite.
        say: Is called with the promise of each check before it runs.
    """
    unsettled: set[str] = set()
    waiting: dict[str, str] = {}
    for name in suite.checks():
        needed = (suite.foundation, *getattr(getattr(suite, name), "after", ()))
        blocked = [other for other in needed if other in unsettled]
        if blocked:
            first = waiting.get(blocked[0], blocked[0])
            reason = f"cannot be judged before this is mended: {_sentence(blocked[0])}"
            result = Result(name, "skip", reason, not_run=True, waits_for=first)
            waiting[name] = first
        else:
            say(_sentence(name))
            result = _outcome(suite, name)
        if blocked or result.status == "fail":
            unsettled.add(name)
        yield result


def _outcome(suite: type[Suite], name: str) -> Result:
    checked: Suite | None = None
    try:
        checked = suite()
        getattr(checked, name)()
    except NotApplicable as reason:
        return Result(name, "skip", _one_line(reason), not_run=isinstance(reason, CannotRun))
    except AssertionError as failure:
        return Result(name, "fail", _one_line(failure))
    except Exception as error:  # whatever a plugin does, the other checks run
        tried = f", for {checked.trying}" if checked and checked.trying else ""
        return Result(name, "fail", f"{type(error).__name__}: {_one_line(error)}{tried}{_place(error)}")
    return Result(name, "ok")


def _sentence(name: str) -> str:
    return Result(name, "ok").promise


def _place(error: BaseException) -> str:
    """Returns the last executed line of the author's own code, in parentheses."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_THE_AUTHORS:
            return f" ({frame.f_code.co_filename}:{line})"
    return ""


def _one_line(error: BaseException) -> str:
    """Returns the message, and its notes in parentheses."""
    notes = [f"({note})" for note in getattr(error, "__notes__", ())]
    return " ".join(" ".join([str(error), *notes]).split())
