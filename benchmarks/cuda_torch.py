"""Times PyTorch code for top-k with error feedback and for sums of sparse payloads on a GPU.

The sizes are those of `cuda_check_times`.

    python benchmarks/cuda_torch.py

It prints rows for benchmarks/results/cuda.md. It needs PyTorch with CUDA, and nothing of fedplug.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

try:
    import torch
except ImportError:
    torch = None

SIZES = (100_000, 1_000_000, 10_000_000, 50_000_000)
SHARES = (1000, 100, 10)  # k = n / share
WARM_UP, REPEATS = 3, 21
COLUMNS = ("n", "k", "torch composite us", "torch.topk us", "copy of 4n bytes us")
SUM_SIZE = 10_000_000
PAYLOADS = ((10, 87_918), (100, 97_949))  # (payloads, entries of each)
SUM_COLUMNS = ("n", "payloads", "entries", "index_add_ us", "deterministic us")


def median_us(prepare: Callable[[], Any], work: Callable[[], Any]) -> float:
    """The median time of `work` in us between two events of the stream, each time after `prepare`."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(WARM_UP + REPEATS):
        prepare()
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(1000 * begin.elapsed_time(end))
    return statistics.median(times[WARM_UP:])


def composite(delta: Any, residual: Any, k: int) -> tuple[Any, Any]:
    """Adds, selects, gathers and updates the residual in place; ties and order are unspecified."""
    residual.add_(delta)
    indices = torch.topk(residual.abs(), k, sorted=False).indices
    values = residual[indices]
    residual.index_add_(0, indices, values, alpha=-1)  # the sent entries of the residual become zero
    return values, indices


def row(n: int, k: int, generator: Any) -> list[str]:
    """Checks and times one case of the table."""
    delta, fresh = (torch.randn(n, device="cuda", generator=generator) for _ in range(2))
    residual = fresh.clone()
    values, indices = composite(delta, residual, k)
    if not torch.equal(residual.index_add(0, indices, values), delta + fresh):
        raise AssertionError("what is sent and what is left are not the update")

    def restore() -> None:
        residual.copy_(fresh)

    times = [
        median_us(restore, lambda: composite(delta, residual, k)),
        median_us(lambda: None, lambda: torch.topk(fresh, k, sorted=False)),
        median_us(lambda: None, restore),
    ]
    return [f"{n:.0e}", str(k), *(f"{time:.1f}" for time in times)]


def sum_row(payloads: int, entries: int, generator: Any) -> list[str]:
    """Checks and times one case of the table of sums."""
    indices = torch.cat(
        [
            torch.randperm(SUM_SIZE, device="cuda", generator=generator)[:entries].sort().values
            for _ in range(payloads)
        ]
    )
    values = torch.randn(len(indices), device="cuda", generator=generator)
    weights = torch.rand(payloads, device="cuda", generator=generator).repeat_interleave(entries)
    total = torch.zeros(SUM_SIZE, device="cuda")

    def add() -> None:
        total.index_add_(0, indices, values * weights)

    add()
    expected = torch.zeros(SUM_SIZE, device="cuda", dtype=torch.float64)
    expected.index_add_(0, indices, values.double() * weights.double())
    if not torch.allclose(total.double(), expected, atol=1e-4):
        raise AssertionError("the sum is not that of the payloads")
    times = []
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        times.append(median_us(lambda: None, add))
    torch.use_deterministic_algorithms(False)
    return [f"{SUM_SIZE:.0e}", str(payloads), str(len(indices)), *(f"{time:.1f}" for time in times)]


def print_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    """Prints a table in Markdown, each row as it comes."""
    print("|", " | ".join(columns), "|")
    print("|", " | ".join("---" for _ in columns), "|")
    for row in rows:
        print("|", " | ".join(row), "|")


def main() -> int:
    """Prints the tables; returns 1 if there is no device to measure on."""
    if torch is None:
        print("needs PyTorch: python -m pip install torch", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print(f"needs a CUDA device; PyTorch {torch.__version__} sees none", file=sys.stderr)
        return 1
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, float32, medians of {REPEATS}\n")
    generator = torch.Generator("cuda").manual_seed(9)
    print_table(COLUMNS, (row(n, n // share, generator) for n in SIZES for share in SHARES))
    print()
    print_table(SUM_COLUMNS, (sum_row(*each, generator) for each in PAYLOADS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
