"""Compares SparseLoCo's codec built from fedplug encoders with a PyTorch implementation after public code.

    python plugins/fedplug-torch/benchmarks/packing.py        # writes results/packing.md beside it

Needs torch and fedplug, no TensorFlow. Both send 64 of every 4,096 entries in 2 bits, with a decaying
residual. The PyTorch implementation follows tplr/compress.py of github.com/tplr-ai/templar: `torch.topk` of
the magnitudes of each chunk, a codebook of bin means, 12-bit indices, one byte for each value. The decoded
update is subtracted from its residual. The two take turns in one process. Their decoded tensors are compared
first.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import fedplug
from fedplug import kernels
from fedplug.diagnostics.environment import environment

RESULTS = Path(__file__).parent / "results" / "packing.md"
COUNT, CHUNK, DECAY, BITS = 64, 4096, 0.95, 2
ENCODER = f"topk(count={COUNT}, chunk={CHUNK}, decay={DECAY}) | codebook({BITS})"
CHUNKS = (244, 2441)  # 999,424 and 9,998,336 elements
IN_A_ROW = 5
"""Consecutive calls of one implementation. The first of them is not measured: PyTorch's threads are still
spinning, and the caches hold the arrays of the other implementation."""
BAR = "\\|"
"""A vertical bar in a cell of a table."""

Array = np.ndarray[Any, Any]


class Packed(NamedTuple):
    """A message of the PyTorch implementation: 12-bit indices, one-byte bins, and the values of the bins."""

    indices: torch.Tensor
    bins: torch.Tensor
    means: torch.Tensor
    shift: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Size of the message in bytes."""
        return sum(part.nbytes for part in self)


class InTorch:
    """The PyTorch implementation with its residual."""

    def __init__(self, size: int) -> None:
        self.residual = torch.zeros(size)

    def encode(self, update: torch.Tensor) -> Packed:
        """Encodes an update. The residual keeps the rest."""
        self.residual.mul_(DECAY).add_(update)
        chunks = self.residual.view(-1, CHUNK)
        indices = torch.topk(chunks.abs(), COUNT, dim=-1, sorted=False).indices
        values = torch.gather(chunks, -1, indices)
        bins, means, shift = quantized(values)
        packed = Packed(packed_12_bits(indices), bins, means, shift)
        self.residual.sub_(decoded(packed, self.residual.numel()))
        return packed


def quantized(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the bin of every value, the mean of each bin without the shift, and the shift."""
    bins = 2**BITS
    shift = values.mean()
    centred = values - shift
    width = 6 * (centred.norm() / math.sqrt(centred.numel() - 1)) / bins
    places = (centred / width + bins // 2).round().clamp(0, bins - 1).to(torch.uint8)
    flat = places.flatten().long()
    sums = torch.zeros(bins).scatter_add_(0, flat, centred.flatten())
    counts = torch.zeros(bins).scatter_add_(0, flat, torch.ones_like(centred.flatten()))
    return places, torch.where(counts > 0, sums / counts, torch.zeros_like(sums)), shift


def packed_12_bits(indices: torch.Tensor) -> torch.Tensor:
    """Packs every two 12-bit indices into three bytes."""
    pairs = indices.flatten().to(torch.int32).reshape(-1, 2)
    first, second = pairs[:, 0], pairs[:, 1]
    data = torch.empty(3 * len(pairs), dtype=torch.uint8)
    data[0::3] = (first & 0xFF).to(torch.uint8)
    data[1::3] = ((first >> 8 & 0xF) | (second & 0xF) << 4).to(torch.uint8)
    data[2::3] = (second >> 4 & 0xFF).to(torch.uint8)
    return data


def unpacked_12_bits(data: torch.Tensor) -> torch.Tensor:
    """Inverts `packed_12_bits`."""
    low, middle, high = (data[place::3].to(torch.int64) for place in range(3))
    indices = torch.empty(2 * len(low), dtype=torch.int64)
    indices[0::2] = low | (middle & 0xF) << 8
    indices[1::2] = middle >> 4 & 0xF | high << 4
    return indices


def decoded(packed: Packed, size: int) -> torch.Tensor:
    """Decodes a message to a dense tensor."""
    values = packed.means[packed.bins.long()] + packed.shift
    dense = torch.zeros(size // CHUNK, CHUNK)
    indices = unpacked_12_bits(packed.indices).view(values.shape)
    dense.scatter_reduce_(-1, indices, values, reduce="mean", include_self=False)
    return dense.view(size)


class InFedplug:
    """The same codec with fedplug, with two states that are overwritten in turn."""

    def __init__(self, encoder: str, size: int) -> None:
        self.codec = fedplug.codec(encoder)
        _, self.spare = self.codec.encode(np.zeros(size, np.float32))
        self.state: Any = None

    def encode(self, update: torch.Tensor) -> bytes:
        """Encodes an update. The state keeps the rest."""
        payload, new = self.codec.encode(update, self.state, out=self.spare if self.state else None)
        self.state, self.spare = new, self.state or self.spare
        return payload


def updates(kind: str, size: int, count: int) -> list[torch.Tensor]:
    """Returns updates of a few rounds; for "uneven", each 1,024 elements have their own scale, like rows."""
    random = np.random.default_rng(0)
    scales = np.repeat(random.lognormal(0, 1, -(-size // 1024)), 1024)[:size] if kind == "uneven" else 1.0
    return [
        torch.from_numpy((random.standard_normal(size) * scales).astype(np.float32)) for _ in range(count)
    ]


def compared(update: torch.Tensor) -> str:
    """Compares the decoded tensors of the first round. Returns a line for the report."""
    size = update.numel()
    payload = InFedplug(ENCODER, size).encode(update)
    ours = fedplug.decode(payload)
    theirs = decoded(InTorch(size).encode(update), size).numpy()
    assert ((ours != 0) == (theirs != 0)).all(), "other entries were sent"
    x = update.numpy().astype(np.float64)
    errors = [float(np.sum((x - y)[y != 0] ** 2) / np.sum(x[y != 0] ** 2)) for y in (ours, theirs)]
    far = np.count_nonzero(np.abs(ours - theirs) > 1e-5 * np.abs(theirs))
    return (
        f"the same {np.count_nonzero(ours):,} entries; squared error of their values {errors[0]:.6f} and "
        f"{errors[1]:.6f} (PyTorch) of their squares; {far} values in another bin"
    )


def in_turn(functions: list[Callable[[int], object]], runs: int, unmeasured: int = 1) -> list[float]:
    """Times functions in turn, each for several consecutive calls. Passes the number of the run.

    Returns:
        The median seconds of each.
    """
    times: list[list[float]] = [[] for _ in functions]
    for first in range(0, unmeasured + runs, IN_A_ROW):
        for function, mine in zip(functions, times, strict=True):
            for run in range(first, first + IN_A_ROW):
                began = time.perf_counter()
                function(run)
                if run >= unmeasured and run > first:
                    mine.append(time.perf_counter() - began)
    return [statistics.median(mine) for mine in times]


def measured(kind: str, size: int, runs: int) -> list[str]:
    """Returns table rows: bits per entry, GB/s of encoding and decoding, and the speedups over PyTorch."""
    rounds = updates(kind, size, 4)
    ways = [InTorch(size), InFedplug(ENCODER, size), InFedplug(f"{ENCODER} | rans", size)]
    sent: list[Any] = [None] * len(ways)

    def encode(way: int, run: int) -> None:
        sent[way] = ways[way].encode(rounds[run % len(rounds)])

    # The first rounds fill the residuals.
    encoding = in_turn([functools.partial(encode, way) for way in range(len(ways))], runs, unmeasured=4)
    out = np.empty(size, np.float32)
    decoding = in_turn(
        [
            lambda _: decoded(sent[0], size),
            lambda _: fedplug.decode(sent[1], out=out),
            lambda _: fedplug.decode(sent[2], out=out),
        ],
        runs,
    )
    entries = size // CHUNK * COUNT
    names = ["PyTorch, 12-bit indices, a byte a value", f"`{ENCODER}`", f"`{ENCODER} | rans`"]
    rows = []
    for way, name in enumerate(names):
        nbytes = len(sent[way]) if way else sent[way].nbytes
        rows.append(
            f"| {size:,} | {kind} | {name.replace('|', BAR)} | {8 * nbytes / entries:.2f} "
            f"| {4 * size / nbytes:.0f} | "
            + " | ".join(f"{4e-9 * size / s[way]:.2f} | {s[0] / s[way]:.1f}" for s in (encoding, decoding))
            + " |"
        )
    return rows


def report(runs: int) -> str:
    """Returns the page of results."""
    torch.set_num_threads(kernels.num_threads())
    facts = environment()
    first = updates("normal", CHUNKS[0] * CHUNK, 1)[0]
    lines = [
        "# The SparseLoCo codec",
        "",
        "Written by `python plugins/fedplug-torch/benchmarks/packing.py`: 64 of every 4,096 entries in",
        f"2 bits, error feedback with decay {DECAY}; float32; medians of {runs} rounds, fewer of the larger",
        f"size; all ways in turn in one process, {IN_A_ROW} calls in a row, the first not counted;",
        f"threads of each: {torch.get_num_threads()}. PyTorch's steps are those of tplr/compress.py, written",
        "anew.",
        "",
        f"- {facts['processor']}, {facts['cores']} cores, SIMD level {facts['simd']}",
        f"- {facts['system']}, Python {facts['python']}, numpy {facts['numpy']}, torch {torch.__version__}",
        f"- load average {os.getloadavg()[0]:.1f} when the run began",
        "",
        f"Of one update: {compared(first)}.",
        "",
        "| elements | numbers | way | bits an entry | times smaller than float32 | encode GB/s | x PyTorch | "
        "decode GB/s | x PyTorch |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for chunks in CHUNKS:
        for kind in ("normal", "uneven"):
            lines += measured(kind, chunks * CHUNK, runs if chunks == CHUNKS[0] else max(9, runs // 4))
    lines += [
        "",
        "Uneven: each 1,024 neighbours have a scale of their own (log-normal). GB/s are of the float32",
        "tensor, by the clock.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes and prints the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=61, help="rounds of the smaller size")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    text = report(arguments.runs)
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
