"""How long a call takes: the median of many runs, each of them checked. Must not know what is timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["median_seconds"]

_RUNS = range(7, 201)
"""So many at least, and at most."""
_SECONDS = 0.3
"""So long in between."""

_Input = TypeVar("_Input")
_Result = TypeVar("_Result")


def median_seconds(
    call: Callable[[_Input], _Result], prepare: Callable[[], _Input], check: Callable[[_Result], None]
) -> tuple[float, int]:
    """The median over many runs, after one that is not counted, and how many these were.

    Args:
        call: What is timed.
        prepare: Makes its argument anew for every run, which is not timed.
        check: Raises if a run's result is wrong; not timed either.
    """
    times: list[float] = []
    while len(times) <= _RUNS.start or (sum(times[1:]) < _SECONDS and len(times) < _RUNS.stop):
        argument = prepare()
        begin = time.perf_counter()
        result = call(argument)
        times.append(time.perf_counter() - begin)
        check(result)
    return statistics.median(times[1:]), len(times) - 1
