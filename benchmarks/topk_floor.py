"""Times the selection against its floor for every dtype and SIMD level, on one thread and on all.

    python benchmarks/topk_floor.py > benchmarks/results/topk_floor.md

The floor is the least that an in-place update must do: ``residual += delta`` in NumPy, on as many threads as
the kernel. Level and threads are fixed per process, so short processes take turns.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedplug import kernels
from fedplug.diagnostics.environment import processor

DTYPES = {"float32": np.float32, "float64": np.float64}
LEVELS = ("avx512", "avx2", "neon")
SIZES, SHARES = (100_000, 1_000_000, 10_000_000), (0.001, 0.01, 0.1, 0.4)
TURNS = 3


def floor(pool: ThreadPoolExecutor, threads: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """``residual += delta`` with a contiguous share per thread."""

    def add(delta: np.ndarray, residual: np.ndarray) -> None:
        if threads == 1:
            np.add(residual, delta, out=residual)
            return
        cuts = [len(delta) * t // threads for t in range(threads + 1)]
        shares = [(residual[a:b], delta[a:b], residual[a:b]) for a, b in itertools.pairwise(cuts)]
        list(pool.map(lambda share: np.add(*share), shares))

    return add


def median_us(call: Callable[[np.ndarray], object], deltas: list[np.ndarray]) -> float:
    times = []
    for delta in deltas:
        begin = time.perf_counter_ns()
        call(delta)
        times.append((time.perf_counter_ns() - begin) / 1000)
    return statistics.median(times[1:])


def times_us() -> dict[str, float]:
    """The medians of this process; each call has another update."""
    threads = kernels.num_threads()
    medians = {}
    with ThreadPoolExecutor(threads) as pool:
        for (name, dtype), n in itertools.product(DTYPES.items(), SIZES):
            random = np.random.default_rng(0)
            updates = [random.standard_normal(n, np.float32).astype(dtype) for _ in range(4)]
            turns = (updates * 10)[: max(4, min(40, 10_000_000 // n))]
            residual = np.zeros(n, dtype)
            add, sums = floor(pool, threads), np.zeros(n, dtype)
            medians[f"{name} {n}"] = median_us(lambda delta, add=add, sums=sums: add(delta, sums), turns)
            for share in SHARES:
                out = np.ones(int(n * share), dtype), np.ones(int(n * share), np.int32)

                def select(delta, residual=residual, out=out):
                    kernels.topk_residual(delta, residual, len(out[0]), out=out)

                medians[f"{name} {n} {share}"] = median_us(select, turns)
    return medians


def in_process_of_its_own(level: str, threads: int) -> dict[str, float] | None:
    environment = {**os.environ, "FEDPLUG_SIMD": level, "FEDPLUG_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--times"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    return json.loads(run.stdout) if run.returncode == 0 else None


def main() -> None:
    if "--times" in sys.argv:
        json.dump(times_us(), sys.stdout)
        return
    threads = (1, os.cpu_count() or 1)
    ways = list(itertools.product(LEVELS, threads))
    turns = [{way: in_process_of_its_own(*way) for way in ways} for _ in range(TURNS)]
    print("# Top-k over its floor\n")
    print(
        "Written by `python benchmarks/topk_floor.py`: `topk_residual` in place on normal numbers, over the"
    )
    print(
        "time of `residual += delta` in NumPy on as many threads. Medians of processes in turn. A level below"
    )
    print(
        "the best of the processor shows what the instruction set costs, not what another processor does.\n"
    )
    print(f"- {datetime.date.today()}, {processor()}, {os.cpu_count()} cores")
    print(f"- {platform.system()} {platform.release()}, numpy {np.__version__}")
    print(f"- load average {os.getloadavg()[0]:.1f} at the end")
    for level in LEVELS:
        if turns[0][level, 1] is None:
            continue
        columns = [f"floor, {t}, us | kernel, {t}, x" for t in ("1 thread", f"{threads[1]} threads")]
        print(f"\n## {level}\n\n| dtype | n | k / n | {' | '.join(columns)} |")
        print("|" + " --- |" * 7)
        for name, n, share in itertools.product(DTYPES, SIZES, SHARES):
            cells = []
            for t in threads:
                least = statistics.median(turn[level, t][f"{name} {n}"] for turn in turns)
                cells.append(f"{least:.4g}")
                times = (turn[level, t][f"{name} {n} {share}"] for turn in turns)
                cells.append(f"{statistics.median(times) / least:.3g}")
            print(f"| {name} | {n:.0e} | {share} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
