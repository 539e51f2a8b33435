"""The suite for schedules: finite values, determined by the round, finally constant, equal in a graph."""

from __future__ import annotations

import abc
import importlib.util
import math

import numpy as np

from fedplug.schedules.base import MAX_ROUNDS, Schedule
from fedplug.testing import expect
from fedplug.testing.suite import CannotRun, ComponentSuite, after

__all__ = ["ScheduleSuite"]

_MANY = 200
_SETTLED = "test_it_settles_in_a_round_that_can_be"
_FINITE = "test_every_value_is_a_finite_number"
_SAME = "test_a_round_has_the_same_value_whenever_it_is_asked_for"


class ScheduleSuite(ComponentSuite):
    """Checks the promises of `fedplug.schedules.base.Schedule`.

    An author writes, in a test module::

        class TestSawtooth(fedplug.testing.ScheduleSuite):
            def make_schedule(self):
                return Sawtooth(0.1, rounds=10)
    """

    @abc.abstractmethod
    def make_schedule(self) -> Schedule:
        """Returns a new schedule, always with the same configuration."""

    def component(self) -> Schedule:
        """See `ComponentSuite.component`."""
        return self.make_schedule()

    def test_it_settles_in_a_round_that_can_be(self) -> None:
        settled: object = self.make_schedule().settled
        expect.that(
            isinstance(settled, int) and 0 <= settled <= MAX_ROUNDS,
            f"settled is {settled!r}; it must be a whole number of rounds, 0 to {MAX_ROUNDS}",
        )

    @after(_SETTLED)
    def test_every_value_is_a_finite_number(self) -> None:
        schedule = self.make_schedule()
        for round_num in _rounds(schedule):
            value: object = schedule.at(round_num)
            good = isinstance(value, int | float) and math.isfinite(value)
            expect.that(good, f"at({round_num}) is {value!r}; it must be a finite number")

    @after(_SETTLED, _FINITE)
    def test_a_round_has_the_same_value_whenever_it_is_asked_for(self) -> None:
        schedule = self.make_schedule()
        rounds = _rounds(schedule)
        forwards = [schedule.at(r) for r in rounds]
        backwards = [schedule.at(r) for r in reversed(rounds)][::-1]
        for again in (backwards, [self.make_schedule().at(r) for r in rounds]):
            for round_num, first, second in zip(rounds, forwards, again, strict=True):
                expect.that(first == second, f"at({round_num}) is {first!r} and, asked again, {second!r}")

    @after(_SETTLED, _FINITE, _SAME)
    def test_it_is_constant_from_the_round_on_in_which_it_settles(self) -> None:
        schedule = self.make_schedule()
        last = schedule.at(schedule.settled)
        for later in (1, 2, 10, 1000):
            value = schedule.at(schedule.settled + later)
            expect.that(
                value == last,
                f"it settles in round {schedule.settled} at {last!r}, and {later} later is {value!r}",
            )

    @after(_SETTLED, _FINITE, _SAME)
    def test_a_graph_has_the_same_values(self) -> None:
        if importlib.util.find_spec("tensorflow") is None:
            raise CannotRun("TensorFlow is not installed")
        import tensorflow as tf

        schedule = self.make_schedule()
        traced = tf.function(schedule.value, input_signature=[tf.TensorSpec([], tf.int32)])
        for round_num in _rounds(schedule):
            want = np.float32(schedule.at(round_num))
            expect.same_bits(f"value({round_num}) in a graph", traced(tf.constant(round_num)), want)


def _rounds(schedule: Schedule) -> list[int]:
    """Returns the first rounds, those around the round in which it settles, and some between."""
    settled = schedule.settled
    some = range(0, settled + 1, max(1, settled // _MANY))
    return sorted({0, 1, 2, *some, max(0, settled - 1), settled})
