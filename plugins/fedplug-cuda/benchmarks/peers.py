"""Times other libraries with an update of 50M float32 elements on a GPU.

    python plugins/fedplug-cuda/benchmarks/peers.py

nvCOMP's ANS and Bitcomp, which are lossless, compress the same 8-bit codes that `qsgd(8)` would send and the
same 1 % of entries. torchft quantizes to 8-bit floats for its all-reduce. Prints rows for the table of
`select_and_encode.py`; a library that is not installed has a row that says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from select_and_encode import ELEMENTS, TENSORS, median_ms


def row(what: str, library: str, measure: Callable[[Any], float]) -> None:
    """Prints the row of a library, which `measure` gets."""
    try:
        found = importlib.import_module(library)
    except ImportError:
        print(f"| {what} | not installed | |", flush=True)
        return
    print(f"| {what} | {measure(found):.2f} ms | |", flush=True)


def main() -> None:
    """Prints a row for each peer."""
    torch.manual_seed(0)
    model = torch.randn(ELEMENTS, device="cuda")
    codes = (model / model.abs().max() * 127).round().to(torch.int8)
    values, indices = torch.topk(model.abs(), ELEMENTS // 100)
    gaps = indices.sort().values.to(torch.int32).diff()

    for algorithm in ("ANS", "Bitcomp"):
        for what, data in (("8-bit codes", codes), ("values of 1 %", values), ("gaps of 1 %", gaps)):

            def encode(nvcomp: Any, algorithm: str = algorithm, data: torch.Tensor = data) -> float:
                codec = nvcomp.Codec(algorithm=algorithm)
                return median_ms(lambda: codec.encode(nvcomp.as_array(data)))

            row(f"nvCOMP {algorithm}, {what}", "nvidia.nvcomp", encode)

    parts = list(model.reshape(TENSORS, 2048, -1).unbind())
    row(
        "torchft, 8-bit floats, dense",
        "torchft.quantization",
        lambda torchft: median_ms(lambda: torchft.fused_quantize_into_fp8(parts, 2)),
    )


if __name__ == "__main__":
    main()
