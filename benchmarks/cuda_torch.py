"""Times on a GPU what PyTorch users write for top-k with error feedback, for the sizes of `cuda_check_times`.

    python benchmarks/cuda_torch.py

Prints rows for benchmarks/results/cuda.md. Needs PyTorch with CUDA, and nothing of fedplug: this is the peer.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

try:
    import torch
except ImportError:
    torch = None

SIZES = (100_000, 1_000_000, 10_000_000, 50_000_000)
SHARES = (1000, 100, 10)  # k = n / share
WARM_UP, REPEATS = 3, 21
COLUMNS = ("n", "k", "torch composite us", "torch.topk us", "copy of 4n bytes us")


def median_us(prepare: Callable[[], Any], work: Callable[[], Any]) -> float:
    """The median time of `work` between two events of the stream, each time after `prepare`."""
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
    """Adds, selects, gathers, subtracts; updates the residual in place. Ties and order are as they come."""
    residual.add_(delta)
    indices = torch.topk(residual.abs(), k, sorted=False).indices
    values = residual[indices]
    residual.index_add_(0, indices, values, alpha=-1)  # the sent values cancel to zero
    return values, indices


def row(n: int, k: int, generator: Any) -> list[str]:
    """One row of the table; checks what it times."""
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


def main() -> int:
    """Prints the table; 1 where there is nothing to measure on."""
    if torch is None:
        print("needs PyTorch: python -m pip install torch", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print(f"needs a CUDA device; PyTorch {torch.__version__} sees none", file=sys.stderr)
        return 1
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, float32, medians of {REPEATS}\n")
    print("|", " | ".join(COLUMNS), "|")
    print("|", " | ".join("---" for _ in COLUMNS), "|")
    generator = torch.Generator("cuda").manual_seed(9)
    for n in SIZES:
        for share in SHARES:
            print("|", " | ".join(row(n, n // share, generator)), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
