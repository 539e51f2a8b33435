"""Times the rotated quantizer by bits and block size, and prints the speeds.

``python -m benchmarks.rotated``; on one thread with ``FEDPLUG_NUM_THREADS=1``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from fedplug import kernels

ELEMENTS = 10_000_000
REPEATS = 15
CASES = [(bits, 2**15) for bits in range(1, 9)] + [(4, 2**12), (4, 2**18), (4, 2**20)]
KEY = (1, 2)


def seconds(call: Callable[[], object]) -> float:
    """The median of some runs after a first one."""
    times = []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def main() -> None:
    """Prints GB/s of the dense tensor for encoding and decoding."""
    x = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)
    out = np.empty_like(x)
    print(f"SIMD level {kernels.simd_level()}, {kernels.num_threads()} threads, {ELEMENTS:,} float32")
    for bits, size in CASES:
        levels = (np.arange(2 ** (bits - 1)) + 0.5) * 4 / 2**bits
        code = kernels.encode_rotated(x, KEY, levels, size)
        there = seconds(partial(kernels.encode_rotated, x, KEY, levels, size))
        back = seconds(partial(kernels.decode_rotated, code, x.size, KEY, levels, size, out=out))
        there, back = x.nbytes / there / 1e9, x.nbytes / back / 1e9
        print(f"{bits} bits, blocks of {size}: {there:.2f} and {back:.2f} GB/s")


if __name__ == "__main__":
    main()
