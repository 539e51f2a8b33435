"""Defines the work of a round in `benchmarks.rounds` for all systems, and measures it.

Processor time is that of this process and of all processes that it started. This needs only NumPy, so that
every system can import it in its own environment.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLASSES",
    "CLIENTS",
    "EXAMPLES",
    "FEATURES",
    "LEARNING_RATE",
    "WIDTHS",
    "Stopwatch",
    "batches",
    "initial_weights",
]

CLIENTS, EXAMPLES, BATCH = 10, 36, 10
FEATURES, CLASSES = 64, 10
LEARNING_RATE = 0.05
WIDTHS = {10_000: 69, 100_000: 281, 1_000_000: 963, 10_000_000: 3125}
"""The width of the two hidden layers by the approximate number of parameters."""

Floats = NDArray[np.float32]


def initial_weights(width: int) -> list[Floats]:
    """Returns kernels ``[inputs, outputs]`` and biases of three dense layers, in turn."""
    rng = np.random.default_rng(0)
    weights = []
    for inputs, outputs in ((FEATURES, width), (width, width), (width, CLASSES)):
        limit = np.sqrt(6 / (inputs + outputs))
        weights += [
            rng.uniform(-limit, limit, (inputs, outputs)).astype(np.float32),
            np.zeros(outputs, np.float32),
        ]
    return weights


def batches(client: int) -> list[tuple[Floats, NDArray[np.int32]]]:
    """Returns a client's batches in order, the same in every round."""
    rng = np.random.default_rng([1, client])
    x = rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, EXAMPLES).astype(np.int32)
    return [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, EXAMPLES, BATCH)]


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
