"""Measures the time of a call: the median of many runs, each of them checked."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["median_seconds"]

_RUNS = range(7, 201)
"""The minimum and maximum number of runs."""
_SECONDS = 0.3
"""The total time after which no run is added to the minimum."""

_Input = TypeVar("_Input")
_Result = TypeVar("_Result")


def median_seconds(
    call: Callable[[_Input], _Result], prepare: Callable[[], _Input], check: Callable[[_Result], None]
) -> tuple[float, int]:
    """Returns the median time of the runs and their number; the first run is not counted.

    Args:
        call: The function to time.
        prepare: A function that makes its argument for every run; not timed.
        check: A function that raises an error if a run's result is wrong; not timed.
    """
    times: list[float] = []
    while len(times) <= _RUNS.start or (sum(times[1:]) < _SECONDS and len(times) < _RUNS.stop):
        argument = prepare()
        begin = time.perf_counter()
        result = call(argument)
        times.append(time.perf_counter() - begin)
        check(result)
    return statistics.median(times[1:]), len(times) - 1
