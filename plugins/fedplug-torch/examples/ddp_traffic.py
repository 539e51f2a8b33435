"""Counts the bytes that a rank sends in a step of DDP, for several numbers of ranks and both exchanges.

``python examples/ddp_traffic.py`` starts up to 16 processes over gloo, and writes
examples/results/ddp_traffic.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import fedplug_torch
import torch
from on_ranks import on_ranks
from torch.nn.parallel import DistributedDataParallel

ENCODERS = "topk(0.01) | qsgd(8)", "topk(0.01, scope='model') | qsgd(8)", "qsgd(4)"
EXCHANGES = "gather", "two_phase"
RANKS = 2, 4, 8, 16
STEPS = 3


def model() -> torch.nn.Module:
    """Returns a network of 1.3 million parameters, most of them in one layer."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(256, 10))


def sent(rank: int) -> Iterator[tuple[str, str, float]]:
    """Yields the bytes per step of this rank for each encoder and exchange."""
    for encoder in ENCODERS:
        for exchange in EXCHANGES:
            ddp = DistributedDataParallel(model())
            state = fedplug_torch.FedplugState(encoder, ddp, exchange=exchange)
            ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
            for _ in range(STEPS):
                x, y = torch.randn(16, 1024), torch.randint(10, (16,))
                torch.nn.functional.cross_entropy(ddp(x), y).backward()
            yield encoder, exchange, state.bytes_sent / STEPS


def table() -> str:
    """Trains on all numbers of ranks, and returns the Markdown page."""
    elements = sum(p.numel() for p in model().parameters())
    lines = [
        "# Traffic of a step of DDP",
        "",
        f"Made by `python examples/ddp_traffic.py`: gloo, {STEPS} steps of a network with {elements:,} "
        f"parameters, of which one layer has {1024 * 1024:,}. Bytes per parameter that a rank sends in a "
        "step, with all headers, sizes and status messages; in brackets those of the rank that sends most. "
        "Dense is a ring all-reduce of float32, 8 (ranks - 1) / ranks bytes.",
        "",
        "| encoder | exchange | ranks | bytes per parameter | dense | fewer |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows: dict[tuple[str, str], list[str]] = {(e, x): [] for e in ENCODERS for x in EXCHANGES}
    for ranks in RANKS:
        found: dict[tuple[str, str], list[float]] = {key: [] for key in rows}
        for encoder, exchange, nbytes in on_ranks(ranks, sent):
            found[encoder, exchange].append(nbytes / elements)
        for (encoder, exchange), each in found.items():
            dense, mean = 8 * (ranks - 1) / ranks, sum(each) / ranks
            most = f" ({max(each):.4f})" if f"{max(each):.4f}" != f"{mean:.4f}" else ""
            written = encoder.replace("|", r"\|")
            rows[encoder, exchange].append(
                f"| `{written}` | {exchange} | {ranks} | {mean:.4f}{most} | {dense:.2f} "
                f"| {dense / mean:,.0f}x |"
            )
    return "\n".join([*lines, *(row for of_ranks in rows.values() for row in of_ranks)]) + "\n"


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), metavar="FOLDER")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    (out / "ddp_traffic.md").write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
