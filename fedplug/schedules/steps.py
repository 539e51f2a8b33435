"""Schedules that are constant, or constant between steps."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from fedplug.errors import ConfigError
from fedplug.schedules.base import Schedule, check_number, check_rounds

__all__ = ["Constant", "Step"]


class Constant(Schedule):
    """The same value in every round."""

    name: ClassVar[str] = "constant"

    def __init__(self, value: float) -> None:
        """Initializes the schedule.

        Args:
            value: The value in every round.

        Raises:
            ConfigError: The value is not a finite number.
        """
        check_number("constant value", value)
        self._value = value

    @property
    def settled(self) -> int:
        return 0

    def at(self, round_num: int) -> float:
        del round_num
        return float(self._value)

    def get_config(self) -> dict[str, object]:
        return {"value": self._value}


class Step(Schedule):
    """A sequence of values: ``step([0.1, 0.01], [20])`` is 0.1 in the rounds 0 to 19, then 0.01."""

    name: ClassVar[str] = "step"

    def __init__(self, values: Sequence[float], rounds: Sequence[int]) -> None:
        """Initializes the schedule.

        Args:
            values: The values, in order; at least one.
            rounds: The round at which each value after the first begins. Ascending, from 1.

        Raises:
            ConfigError: An argument is not a list of such numbers, or the lengths do not match.
        """
        for what, numbers in (("values", values), ("rounds", rounds)):
            if not isinstance(numbers, list | tuple):
                raise ConfigError(f"step {what} is {numbers!r}; it must be a list of numbers")
        for value in values:
            check_number("one of the step values", value)
        for number in rounds:
            check_rounds("one of the step rounds", number, 1)
        if len(values) != len(rounds) + 1:
            raise ConfigError(
                f"step has {len(values)} values and {len(rounds)} rounds; give one value more than rounds"
            )
        if any(a >= b for a, b in pairwise(rounds)):
            raise ConfigError(f"step rounds is {list(rounds)!r}; the rounds must ascend")
        self._values, self._rounds = list(values), list(rounds)

    @property
    def settled(self) -> int:
        return self._rounds[-1] if self._rounds else 0

    def at(self, round_num: int) -> float:
        return float(self._values[bisect.bisect_right(self._rounds, round_num)])

    def get_config(self) -> dict[str, object]:
        return {"values": list(self._values), "rounds": list(self._rounds)}
