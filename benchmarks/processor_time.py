"""The processor time of this process and of all that it started, as `benchmarks.rounds` counts it."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["Stopwatch"]


class Stopwatch:
    """Times the rounds of a system.

    Attributes:
        rounds: A pair for each: seconds of processor time, of all processes together, and of the clock.
    """

    def __init__(self) -> None:
        self.rounds: list[tuple[float, float]] = []
        self.begin()

    def begin(self) -> None:
        """A round begins now."""
        others = _descendants_seconds()  # before the clocks, after them in `end`: not to be counted itself
        self._began = time.process_time() + others, time.perf_counter()

    def end(self) -> None:
        """It ends now, and the next one begins."""
        own, now = time.process_time(), time.perf_counter()
        processor, clock = self._began
        self.rounds.append((own + _descendants_seconds() - processor, now - clock))
        self.begin()


def _descendants_seconds() -> float:
    """Of all processes that this one started, running or ended, in ticks."""
    ended = os.times()
    total = ended.children_user + ended.children_system
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total + sum(seconds[pid] for pid in parents if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) > 1:
        if pid == os.getpid():
            return True
    return False
