"""The median of checked runs."""

from __future__ import annotations

import itertools
import time

import pytest

from fedplug.diagnostics.timing import timed


def test_every_run_has_its_own_argument_and_is_checked():
    seen, numbers = [], itertools.count()
    seconds, spread, runs = timed(lambda number: -number, lambda: next(numbers), seen.append)
    assert seconds > 0
    assert spread >= 0
    assert seen == [-number for number in range(runs + 1)]


def test_a_slow_call_is_timed_few_times_and_an_outlier_does_not_count():
    pauses = iter([0.3, 0.2, *[0.05] * 20])
    seconds, spread, runs = timed(time.sleep, lambda: next(pauses), lambda _: None)
    assert 7 <= runs < 20
    assert 0 <= spread < 1
    assert 0.05 <= seconds < 0.2


def test_a_wrong_result_ends_it():
    def check(result):
        raise AssertionError(result)

    with pytest.raises(AssertionError, match="wrong"):
        timed(lambda _: "wrong", lambda: None, check)
