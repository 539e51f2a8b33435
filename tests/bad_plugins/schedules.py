"""Schedules that each break one promise, which the suite must name. fedplug's own `Linear` breaks none.

`BAD` pairs a check with the schedule that must fail it.
"""

from __future__ import annotations

from typing import ClassVar

from fedplug.schedules import Linear


class Down(Linear):
    """Falls from 1 to 0 in eight rounds. Passes all checks."""

    name: ClassVar[str] = "down"

    def __init__(self):
        super().__init__(1.0, 0.0, 8)

    def get_config(self):
        return {}


class NameWithSpaces(Down):
    name: ClassVar[str] = "step by step"


class ForgetsItsConfig(Linear):
    def __init__(self, start=2.0):
        super().__init__(start, 0.0, 8)

    def get_config(self):
        return {"start": self.at(0) + 1}


class NeverSettles(Down):
    @property
    def settled(self):
        return 10**9


class DividesByTheRoundsLeft(Down):
    def at(self, round_num):
        return float("inf") if round_num >= self.settled else super().at(round_num)


class CountsItsCalls(Down):
    calls = 0

    def at(self, round_num):
        self.calls += 1
        return float(self.calls)


class GoesOn(Down):
    def at(self, round_num):
        return 1.0 - round_num / 8


class HalfInGraphs(Down):
    def value(self, round_num):
        return super().value(round_num) / 2


GOOD = [Down]

BAD = [
    ("test_it_has_a_name_for_the_registry", NameWithSpaces),
    ("test_its_config_survives_json_and_makes_an_equal_component", ForgetsItsConfig),
    ("test_it_settles_in_a_round_that_can_be", NeverSettles),
    ("test_every_value_is_a_finite_number", DividesByTheRoundsLeft),
    ("test_a_round_has_the_same_value_whenever_it_is_asked_for", CountsItsCalls),
    ("test_it_is_constant_from_the_round_on_in_which_it_settles", GoesOn),
    ("test_a_graph_has_the_same_values", HalfInGraphs),
]
