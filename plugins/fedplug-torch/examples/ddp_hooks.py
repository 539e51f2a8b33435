"""Compares loss and traffic of PyTorch's communication hooks for DDP with fedplug's hook.

``python examples/ddp_hooks.py`` trains the character model in four processes with every hook and three seeds,
and writes a table and a picture to examples/results.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import fedplug_torch
import torch
import torch.distributed as dist
from on_ranks import on_ranks
from standard_library import CharacterModel, batch, held_out_loss, loss_of, plot, read_text
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from fedplug.diagnostics.environment import environment

RANKS = 4
SEEDS = 3
WARMUP_STEPS = 10
"""Number of first steps that fedplug and PowerSGD send dense. PowerSGD needs at least two."""
BATCH = 4
EVALUATE_EVERY = 40


class Point(NamedTuple):
    """The bytes that a rank has sent after the warm-up, and the loss on the held-out text."""

    traffic: float
    loss: float


Curve = list[Point]
Traffic = Callable[[int], float]
"""Takes the number of steps after the warm-up. Returns the bytes that a rank has sent in them.

In a ring, an all-reduce of m bytes sends 2 m (ranks - 1) / ranks. fedplug counts what it sends.
"""

Hook = Callable[[object, dist.GradBucket], torch.futures.Future[torch.Tensor]]
Register = Callable[[DistributedDataParallel], Traffic]
RING = 2 * (RANKS - 1) / RANKS


def with_torch(hook: Hook, element_bytes: int) -> Register:
    """Registers one of PyTorch's hooks that reduce all elements."""

    def register(ddp: DistributedDataParallel) -> Traffic:
        ddp.register_comm_hook(None, hook)
        message = element_bytes * sum(p.numel() for p in ddp.parameters())
        return lambda steps: RING * message * steps

    return register


def with_power_sgd(rank: int) -> Register:
    """Registers PowerSGD (Vogels et al. 2019), which counts the float32 elements that it sends."""

    def register(ddp: DistributedDataParallel) -> Traffic:
        state = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=WARMUP_STEPS)
        ddp.register_comm_hook(state, powerSGD_hook)
        return lambda steps: RING * 4 * state.compression_stats()[2]

    return register


def with_fedplug(encoder: str) -> Register:
    """Registers `fedplug_hook` with an encoder."""

    def register(ddp: DistributedDataParallel) -> Traffic:
        state = fedplug_torch.FedplugState(encoder, ddp, warmup_steps=WARMUP_STEPS)
        ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
        return lambda steps: state.bytes_sent

    return register


DENSE = "`allreduce_hook` (torch)"
HOOKS = {
    DENSE: with_torch(default_hooks.allreduce_hook, 4),
    "`fp16_compress_hook` (torch)": with_torch(default_hooks.fp16_compress_hook, 2),
    "`powerSGD_hook`, rank 1 (torch)": with_power_sgd(1),
    "`powerSGD_hook`, rank 4 (torch)": with_power_sgd(4),
}
for _encoder in (
    "topk(0.01) | qsgd(8)",
    "topk(0.05, scope='model') | qsgd(8)",
    "topk(0.1, scope='model') | qsgd(4)",
    "topk(0.3, scope='model') | qsgd(4)",
):
    HOOKS[f"`{_encoder}`"] = with_fedplug(_encoder)


def train(rank: int, steps: int) -> Iterator[tuple[str, Curve]]:
    """Trains one rank with one hook and seed after the other. The first rank yields their curves."""
    text = read_text(RANKS)
    for name, seed in ((name, seed) for seed in range(SEEDS) for name in HOOKS):
        torch.manual_seed(seed)
        ddp = DistributedDataParallel(CharacterModel())
        traffic = HOOKS[name](ddp)
        optimizer = torch.optim.AdamW(ddp.parameters(), lr=2e-3)
        curve = []
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            loss_of(ddp, *batch(text.shards[rank], (seed, rank, step), BATCH)).backward()
            optimizer.step()
            if step % EVALUATE_EVERY == 0 and rank == 0:
                curve.append(Point(traffic(step - WARMUP_STEPS), held_out_loss(ddp.module, text, windows=64)))
        if rank == 0:
            print(name, *curve, flush=True)
            yield name, curve


def table(curves: dict[str, list[Curve]], steps: int) -> str:
    """Returns the Markdown table of the last points."""
    facts = environment()
    elements = sum(p.numel() for p in CharacterModel().parameters())
    compressed_steps = steps - WARMUP_STEPS
    dense = curves[DENSE][0][-1].traffic
    lines = [
        "# Communication hooks of DDP",
        "",
        f"Made by `python examples/ddp_hooks.py`: {facts['processor']}, PyTorch {torch.__version__}, gloo, "
        f"{RANKS} processes on one machine. The character model ({elements:,} parameters), {steps} steps, "
        f"AdamW. Loss is the mean of {SEEDS} seeds and their standard deviation, in nats per character of "
        f"held-out modules. Traffic is what a rank sends in a step after {WARMUP_STEPS} dense ones: an "
        "all-reduce of m bytes sends 2 m (ranks - 1) / ranks in a ring; fedplug's is counted, with all sizes "
        "and headers. Times are not given, because the machine was busy with other work.",
        "",
        "| hook | loss | traffic | fewer bytes |",
        "| --- | --- | --- | --- |",
    ]
    for name, of_seeds in curves.items():
        losses = [curve[-1].loss for curve in of_seeds]
        loss, spread = statistics.mean(losses), statistics.stdev(losses)
        traffic = statistics.mean(curve[-1].traffic for curve in of_seeds)
        lines.append(
            f"| {name.replace('|', chr(92) + '|')} | {loss:.3f} ± {spread:.3f} "
            f"| {traffic / compressed_steps:,.0f} | {dense / traffic:,.1f}x |"
        )
    return "\n".join(lines) + "\n"


def mean_curve(of_seeds: list[Curve]) -> list[tuple[float, float]]:
    """Returns the mean points of all seeds."""
    points = [zip(*at_step, strict=True) for at_step in zip(*of_seeds, strict=True)]
    return [(statistics.mean(traffic), statistics.mean(losses)) for traffic, losses in points]


def main() -> None:
    """Trains, and writes table and picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), metavar="FOLDER")
    arguments = parser.parse_args()
    curves: dict[str, list[Curve]] = {name: [] for name in HOOKS}
    for name, curve in on_ranks(RANKS, train, arguments.steps):
        curves[name].append(curve)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "ddp_hooks.md").write_text(table(curves, arguments.steps), encoding="utf-8")
    means = {name.replace("`", ""): mean_curve(curves[name]) for name in HOOKS}
    plot(
        means,
        {DENSE.replace("`", "")},
        "bytes sent by a rank after the warm-up",
        arguments.out / "ddp_hooks.svg",
    )


if __name__ == "__main__":
    main()
