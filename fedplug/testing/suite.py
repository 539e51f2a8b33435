"""What all suites have in common: a check is a method ``test_*`` without arguments that raises when it fails.

pytest finds and runs such methods by itself; `run` does it without pytest. Must not know what is tested.
"""

from __future__ import annotations

import sys
import traceback
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

__all__ = ["CannotRun", "NotApplicable", "Result", "Suite", "after", "run"]

NotApplicable = unittest.SkipTest
"""Raised by a check that has nothing to say about this part; pytest takes it for a skip."""


class CannotRun(NotApplicable):
    """Raised by a check that applies and cannot be run here, as something is not installed."""


_NOT_THE_AUTHORS = {"fedplug", "numpy", "tensorflow", "tensorflow_federated", *sys.stdlib_module_names}
"""Packages whose lines do not tell an author where to look."""

_Function = TypeVar("_Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Result:
    """What became of one check.

    Attributes:
        check: The name of the method.
        status: ``"skip"``: it does not apply, or cannot be judged as another one failed.
        reason: Why it failed or was skipped, in one line; empty when it is ok.
        not_run: Whether it was skipped although it applies.
        waits_for: The check that failed and must pass before this one is run; empty if there is none.
    """

    check: str
    status: Literal["ok", "fail", "skip"]
    reason: str = ""
    not_run: bool = False
    waits_for: str = ""

    @property
    def promise(self) -> str:
        """The name as a sentence."""
        return self.check.removeprefix("test_").replace("_", " ")


def after(*checks: str) -> Callable[[_Function], _Function]:
    """Marks a check that says nothing new where one of these failed; `run` leaves it out then."""

    def mark(function: _Function) -> _Function:
        function.__dict__["after"] = checks
        return function

    return mark


class Suite:
    """Base of the suites. A subclass says what to test; a new instance is made for every check."""

    foundation: ClassVar[str] = ""
    """The check without which no later one says anything new."""

    @classmethod
    def checks(cls) -> list[str]:
        """The names of the checks, in the order in which they were written, bases first."""
        names = [name for base in reversed(cls.__mro__) for name in vars(base) if name.startswith("test_")]
        return list(dict.fromkeys(names))


def run(suite: type[Suite]) -> Iterator[Result]:
    """Runs every check of a suite, and goes on whatever happens in one."""
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
            result = _outcome(suite, name)
        if blocked or result.status == "fail":
            unsettled.add(name)
        yield result


def _outcome(suite: type[Suite], name: str) -> Result:
    try:
        getattr(suite(), name)()
    except NotApplicable as reason:
        return Result(name, "skip", _one_line(reason), not_run=isinstance(reason, CannotRun))
    except AssertionError as failure:
        return Result(name, "fail", _one_line(failure))
    except Exception as error:  # whatever a plugin does, the other checks run
        return Result(name, "fail", f"{type(error).__name__}: {_one_line(error)}{_place(error)}")
    return Result(name, "ok")


def _sentence(name: str) -> str:
    return Result(name, "ok").promise


def _place(error: BaseException) -> str:
    """The last line of the author's own that was reached, in parentheses."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_THE_AUTHORS:
            return f" ({frame.f_code.co_filename}:{line})"
    return ""


def _one_line(error: BaseException) -> str:
    """The message, and in parentheses what was added to it on the way."""
    notes = [f"({note})" for note in getattr(error, "__notes__", ())]
    return " ".join(" ".join([str(error), *notes]).split())
