"""The contract of a schedule, which the conformance suite tests, and checks of arguments."""

from __future__ import annotations

import abc
import sys

import fedplug.ops as ops
from fedplug.errors import ConfigError
from fedplug.ops.types import Scalar
from fedplug.registry.component import Component

__all__ = ["MAX_ROUNDS", "Schedule", "check_number", "check_rounds"]

MAX_ROUNDS = 100_000
"""Upper limit of `Schedule.settled`: graphs store the values of all rounds until then as a table."""


class Schedule(Component):
    """A number that depends only on the round.

    A restarted run therefore continues with the same values, and every client uses the same one. Authors
    implement `at` in plain Python. Graphs look the values up in a table, so every runtime gets the same bits.
    """

    @property
    @abc.abstractmethod
    def settled(self) -> int:
        """The first round from which the value no longer changes; 0 to `MAX_ROUNDS`."""

    @abc.abstractmethod
    def at(self, round_num: int) -> float:
        """Returns the value in a round.

        Args:
            round_num: Round number, 0 or more; a process counts its rounds from 0.

        Returns:
            A finite number. It is the same for the same round, and constant from round `settled` on.
        """

    def values(self) -> list[float]:
        """Returns the values of the rounds 0 to `settled`."""
        return [self.at(round_num) for round_num in range(self.settled + 1)]

    def value(self, round_num: Scalar) -> Scalar:
        """Computes `at` in a graph.

        Args:
            round_num: int32 scalar. Negative values count as 0.

        Returns:
            float32 scalar: the value rounded to the nearest float32.
        """
        return ops.table_lookup(self.values(), round_num, "float32")


def check_number(what: str, value: object) -> None:
    """Raises `ConfigError` unless the value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ConfigError(f"{what} is {value!r}; it must be a finite number")


def check_rounds(what: str, value: object, least: int) -> None:
    """Raises `ConfigError` unless the value is a whole number of rounds from ``least`` to `MAX_ROUNDS`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_ROUNDS:
        raise ConfigError(
            f"{what} is {value!r}; it must be a whole number of rounds, {least} to {MAX_ROUNDS}"
        )
