"""Measures the processor time of this process and of all processes that it started."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["Stopwatch"]


class Stopwatch:
    """Measures the time of each round of a system.

    Attributes:
        rounds: For each round, the seconds of processor time of all processes, and of the clock.
    """

    def __init__(self) -> None:
        self.rounds: list[tuple[float, float]] = []
        self.begin()

    def begin(self) -> None:
        # Read before the clocks here and after them in `end`, so that the reading itself is not measured.
        others = _descendants_seconds()
        self._began = time.process_time() + others, time.perf_counter()

    def end(self) -> None:
        """Ends a round and begins the next one."""
        own, now = time.process_time(), time.perf_counter()
        processor, clock = self._began
        self.rounds.append((own + _descendants_seconds() - processor, now - clock))
        self.begin()


def _descendants_seconds() -> float:
    """The processor seconds of all descendants of this process, running or ended."""
    ended = os.times()
    total = ended.children_user + ended.children_system
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # the process has just ended
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
