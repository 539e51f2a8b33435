"""Times the selection for every dtype at every SIMD level of this processor, on one thread.

    python benchmarks/simd.py > benchmarks/results/simd.md

The level is fixed per process, so short processes take turns. ``baseline`` is the plain C++ loops of other
processors.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from fedplug import kernels
from fedplug.diagnostics.environment import processor

DTYPES = {"float32": np.float32, "float64": np.float64}
LEVELS = ("baseline", "avx2", "avx512", "neon")
SIZES, SHARES, POLICIES = (100_000, 1_000_000, 10_000_000), (0.01, 0.1), ("drop", "error")
TURNS = 3


def cases() -> Iterator[tuple[str, int, float, str]]:
    return itertools.product(DTYPES, SIZES, SHARES, POLICIES)


def times_us() -> list[float]:
    """The median of every case at the level of this process; each call has another update."""
    medians = []
    updates: dict[tuple[str, int], list[np.ndarray]] = {}
    for name, n, share, policy in cases():
        if (name, n) not in updates:
            random = np.random.default_rng(0)
            draws = max(3, min(20, 10_000_000 // n))
            updates = {
                (name, n): [random.standard_normal(n, np.float32).astype(DTYPES[name]) for _ in range(draws)]
            }
        residual = np.zeros(n, DTYPES[name])
        out = np.ones(int(n * share), DTYPES[name]), np.ones(int(n * share), np.int32)
        times = []
        for delta in updates[name, n]:
            begin = time.thread_time_ns()
            kernels.topk_residual(delta, residual, len(out[0]), on_nonfinite=policy, out=out)
            times.append((time.thread_time_ns() - begin) / 1000)
        medians.append(statistics.median(times[1:]))
    return medians


def in_process_of_its_own(level: str) -> list[float] | None:
    environment = {**os.environ, "FEDPLUG_SIMD": level, "FEDPLUG_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, __file__, "--times"], env=environment, capture_output=True, text=True
    )
    return json.loads(run.stdout) if run.returncode == 0 else None


def main() -> None:
    if "--times" in sys.argv:
        json.dump(times_us(), sys.stdout)
        return
    turns = [{level: in_process_of_its_own(level) for level in LEVELS} for _ in range(TURNS)]
    levels = [level for level in LEVELS if turns[0][level] is not None]
    print("# SIMD levels\n")
    print(
        "Written by `python benchmarks/simd.py`: `topk_residual` in place on normal numbers, one thread. CPU"
    )
    print(f"time of a call, medians of {TURNS} processes in turn. Every level gives the same bits.\n")
    print(f"- {processor()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end")
    print(f"- {platform.system()} {platform.release()}, numpy {np.__version__}\n")
    print(f"| dtype | n | k / n | policy | {' us | '.join(levels)} us | baseline / {levels[-1]} |")
    print("|" + " --- |" * (len(levels) + 5))
    for i, (name, n, share, policy) in enumerate(cases()):
        times = [statistics.median(turn[level][i] for turn in turns) for level in levels]
        cells = " | ".join(f"{us:.4g}" for us in times)
        print(f"| {name} | {n:.0e} | {share} | {policy} | {cells} | {times[0] / times[-1]:.2g} |")


if __name__ == "__main__":
    main()
