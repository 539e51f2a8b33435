"""Neither the number of threads nor the SIMD level changes a bit of a result."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fedplug import kernels

BEGIN = """
import hashlib
import ml_dtypes
import numpy as np
from fedplug import kernels

rng, digest = np.random.default_rng(0), hashlib.sha256()

def add(*arrays):
    for array in arrays:
        digest.update(array.tobytes())
"""
END = """
print(kernels.simd_level(), kernels.num_threads(), digest.hexdigest())
"""
PROGRAMS = {
    "top-k and sums": """
for n in (100, 70_001, 300_001):
    for delta in (rng.standard_normal(n), rng.integers(-9, 10, n), rng.random(n) < 0.01):
        for dtype in (np.float32, np.float64):
            for k in (n // 500, n // 50, n // 3):
                for policy in ("error", "drop"):
                    residual = np.zeros(n, dtype)
                    given = delta.astype(dtype), residual, k
                    values, indices = kernels.topk_residual(*given, on_nonfinite=policy)
                    add(values, indices, residual)
    splits = np.int64([0, 10, len(values)])
    kernels.scatter_decode_add(residual, values, indices, splits, np.array([0.3, 1.7]))
    add(residual, np.uint32(kernels.crc32(residual)))
""",
    "chunks and codebooks": """
delta, residual = rng.standard_normal((2, 1_500_001)).astype(np.float32)
for dtype in (np.float32, np.float16):
    add(kernels.encode_values(delta.astype(dtype), "codebook", bits=3))
add(*kernels.chunked_topk_residual(delta, residual, 64, chunk=4096, decay=0.95), residual)
""",
    "threshold": """
delta, residual = rng.standard_normal((2, 1_500_001)).astype(np.float32)
for threshold in (3.0, 0.5):
    add(*kernels.threshold_residual(delta, residual, threshold), residual)
""",
    "rotated": """
for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
    for bits in range(1, 9):
        x = rng.standard_normal(40_000).astype(dtype)
        levels = (np.arange(2 ** (bits - 1)) + 0.5) * 4 / 2**bits
        code = kernels.encode_rotated(x, (bits, 0), levels, 2**13)
        add(code, kernels.decode_rotated(code, len(x), (bits, 0), levels, 2**13, dtype=dtype))
""",
    "low rank": """
for dtype in (np.float32, np.float64, np.float16):
    wide = np.float64 if dtype == np.float64 else np.float32
    for m, n in ((700, 300), (40_000, 5), (5, 40_000), (3000, 3000)):
        a = rng.standard_normal((m, n)).astype(dtype)
        p, q = (rng.standard_normal((size, 2)).astype(wide) for size in (m, n))
        add(*kernels.sum_and_largest(a.astype(wide), a.astype(wide)))
        add(kernels.matrix_times(a, q, scale=1.3), kernels.matrix_times(a, p, scale=1.3, transposed=True))
        add(kernels.low_rank_matrix(p, q, scale=1.3, dtype=dtype))
        add(kernels.low_rank_residual(a, p, q, scale=1.3))
""",
}


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=name, marks=[pytest.mark.slow] if name == "low rank" else [])
        for name, program in PROGRAMS.items()
    ],
)
def test_neither_threads_nor_simd_level_change_a_bit(program):
    best = kernels.simd_level()
    levels = ("baseline", "avx2", "avx512")
    levels = levels[: levels.index(best) + 1]
    runs = [*((level, "1") for level in levels), (best, "3")]
    printed = [
        subprocess.run(
            [sys.executable, "-c", BEGIN + program + END],
            env={**os.environ, "FEDPLUG_SIMD": level, "FEDPLUG_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for level, threads in runs
    ]
    assert [(level, threads) for level, threads, _ in printed] == runs
    assert len({digest for _, _, digest in printed}) == 1
