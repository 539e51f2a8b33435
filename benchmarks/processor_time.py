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
        self._began = _processor_seconds(), time.perf_counter()

    def end(self) -> None:
        """It ends now, and the next one begins."""
        now = _processor_seconds(), time.perf_counter()
        self.rounds.append((now[0] - self._began[0], now[1] - self._began[1]))
        self.begin()


def _processor_seconds() -> float:
    """Of this process, whose clock is fine, and of its descendants, running or ended, in ticks."""
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
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
