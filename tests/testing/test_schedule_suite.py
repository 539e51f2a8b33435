"""Tests that each schedule check fails for the schedule made to break it, and for no other."""

from __future__ import annotations

import pytest

from fedplug.testing import ScheduleSuite, components

BAD_PLUGINS = "schedules"


def suite_of(schedule):
    class Suite(ScheduleSuite):
        def make_schedule(self):
            return schedule()

    return Suite


def test_a_good_schedule_passes_every_check(good, failures):
    assert not failures(suite_of(good))


@pytest.mark.needs("tensorflow")  # one check traces graphs
def test_a_bad_schedule_fails_exactly_the_check_it_was_made_for(check, bad, failures):
    failed = failures(suite_of(bad))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_there_is_a_bad_schedule_for_every_check(bad_plugins):
    assert {check for check, _ in bad_plugins(BAD_PLUGINS).BAD} == set(ScheduleSuite.checks())


@pytest.mark.parametrize(
    "example",
    [
        "constant(0.01)",
        "step([0.1, 0.03, 0.01], [10, 20])",
        "linear(0.1, 0.01, 20)",
        "exponential(0.25, 0.001, 4)",
        "cosine(0.1, 0.01, 20)",
    ],
)
def test_a_built_in_schedule_passes_every_check(example, failures):
    assert not failures(components.suite("schedule", example))
