"""Measures the time of a call: the median and the spread of many runs, each of them checked."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

__all__ = ["Timing", "timed"]

_RUNS = range(7, 201)
"""The minimum and maximum number of runs."""
_SECONDS = 0.3
"""The total time after which no run is added to the minimum."""

_Input = TypeVar("_Input")
_Result = TypeVar("_Result")


class Timing(NamedTuple):
    """The time of a call.

    Attributes:
        seconds: The median of the runs.
        spread: Half the interquartile range of the runs, relative to the median.
        runs: Number of runs.
    """

    seconds: float
    spread: float
    runs: int


def timed(
    call: Callable[[_Input], _Result], prepare: Callable[[], _Input], check: Callable[[_Result], None]
) -> Timing:
    """Times many runs. The first run is not counted.

    Args:
        call: The function to time.
        prepare: A function that makes its argument for every run, not timed.
        check: A function that raises an error if a run's result is wrong, not timed.
    """
    times: list[float] = []
    while len(times) <= _RUNS.start or (sum(times[1:]) < _SECONDS and len(times) < _RUNS.stop):
        argument = prepare()
        begin = time.perf_counter()
        result = call(argument)
        times.append(time.perf_counter() - begin)
        check(result)
    low, median, high = statistics.quantiles(times[1:], method="inclusive")
    return Timing(median, (high - low) / 2 / median, len(times) - 1)
