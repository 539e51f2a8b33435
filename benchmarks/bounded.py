"""Compares the error-bounded encoder with zfp at equal error: writes benchmarks/results/bounded.md.

    pip install --target /some/folder --no-deps zfpy
    PYTHONPATH=/some/folder python -m benchmarks.bounded

zfpy is optional and in no lock file; without it its rows are omitted. The update is that of
`benchmarks.which_encoder`. The error of zfp with fixed accuracy is far below its tolerance, so the tolerance
is raised until the largest error is that of ``bounded``. zfp encodes the matrix and the flat vector.
"""

from __future__ import annotations

import datetime
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedplug
from benchmarks.which_encoder import digits_update
from fedplug.diagnostics.environment import environment

RESULTS = Path(__file__).parent / "results" / "bounded.md"
BOUNDS = (1e-1, 1e-2, 1e-3)
TIMED = 1_000_000
RUNS = 7

_MADE = """# Error-bounded encoders

Made by `python -m benchmarks.bounded` on {date}: {processor}, {simd}, {threads} kernel threads.

The largest matrix of what one pass over scikit-learn's digits changes in a network ({shape} float32), and the
speed of {timed:,} normally distributed float32, median of {runs} runs, bytes of the dense array. Largest
error is relative to the range, as the bound is; that of zfp is raised to the bound, as it keeps far below its
tolerance. "Differences" is the entropy of the same levels after prediction by the neighbour (the Lorenzo
predictor of SZ), and "levels" without: what is predicted takes more.

"""


def seconds(call: Callable[[], Any]) -> float:
    """The median over `RUNS` calls."""
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return median(times)


def entropy_bits(symbols: NDArray[Any]) -> float:
    """The entropy of the symbols' empirical distribution, in bits per symbol."""
    share = np.unique(symbols, return_counts=True)[1] / symbols.size
    return float(-(share * np.log2(share)).sum())


def row(name: str, x: NDArray[Any], numbers: NDArray[Any], encode: Any, decode: Any) -> list[str]:
    payload = encode(x)
    error = float(np.abs(decode(payload) - x).max() / np.ptp(x))
    of_numbers = encode(numbers)
    gigabytes = numbers.nbytes / 1e9
    return [
        name,
        f"{error:.2e}",
        f"{8 * len(payload) / x.size:.2f}",
        f"{x.nbytes / len(payload):.1f}x",
        f"{gigabytes / seconds(lambda: encode(numbers)):.2f}",
        f"{gigabytes / seconds(lambda: decode(of_numbers)):.2f}",
    ]


def zfp_rows(x: NDArray[Any], numbers: NDArray[Any], bound: float) -> list[list[str]]:
    """Rows of zfp with the largest tolerance whose error is within the bound."""
    if importlib.util.find_spec("zfpy") is None:
        return []
    import zfpy

    rows = []
    for shape, array in (("matrix", x), ("vector", x.reshape(-1))):
        limit = bound * float(np.ptp(x))

        def error(tolerance: float, array: NDArray[Any] = array) -> float:
            sent = zfpy.compress_numpy(array, tolerance=tolerance)
            return float(np.abs(zfpy.decompress_numpy(sent) - array).max())

        factor = max(2**power for power in range(6) if error(2**power * limit) <= limit)

        def encode(values: NDArray[Any], factor: int = factor) -> bytes:
            sent: bytes = zfpy.compress_numpy(values, tolerance=factor * bound * float(np.ptp(values)))
            return sent

        rows.append(row(f"zfp, {shape}", array, numbers, encode, zfpy.decompress_numpy))
    return rows


def main() -> None:
    x = max(digits_update().arrays.values(), key=lambda array: array.size)
    numbers = np.random.default_rng(0).standard_normal(TIMED).astype(np.float32)
    here = environment()
    text = _MADE.format(
        date=datetime.date.today(),
        processor=here["processor"],
        simd=here["simd"],
        threads=here["kernel_threads"],
        shape=" x ".join(map(str, x.shape)),
        timed=TIMED,
        runs=RUNS,
    )
    head = ["", "largest error", "bits/element", "fewer bytes", "encode GB/s", "decode GB/s"]
    for bound in BOUNDS:
        codec = fedplug.codec(f"bounded({bound}) | rans")
        rows = [head, ["---", *["---:"] * (len(head) - 1)]]
        rows.append(
            row(
                f"`bounded({bound}) \\| rans`",
                x,
                numbers,
                lambda values, codec=codec: codec.encode(values)[0],
                fedplug.decode,
            )
        )
        rows += zfp_rows(x, numbers, bound)
        levels = np.rint(x / (2 * bound * np.ptp(x))).astype(np.int64)
        text += f"## Bound {bound}\n\n" + "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
        alone, predicted = entropy_bits(levels), entropy_bits(np.diff(levels))
        text += f"\n\nLevels {alone:.2f}, differences {predicted:.2f} bits.\n\n"
    text = text.rstrip("\n") + "\n"
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
