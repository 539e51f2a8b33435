"""Compares loss and traffic of PyTorch's communication hooks for DDP with fedplug's hook.

``python examples/ddp_hooks.py`` trains the character model in four processes with every hook and three seeds,
and writes a table and a picture to examples/results.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fedplug_torch
import torch
import torch.distributed as dist
from standard_library import CharacterModel, batch, held_out_loss, loss_of, read_text
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from fedplug import pictures
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

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]
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


def with_fedplug(encoder: str, **arguments: Any) -> Register:
    """Registers `fedplug_hook` with an encoder."""

    def register(ddp: DistributedDataParallel) -> Traffic:
        state = fedplug_torch.FedplugState(encoder, ddp, warmup_steps=WARMUP_STEPS, **arguments)
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
for _encoder, _exchanges in {
    "topk(0.01) | qsgd(8)": ("two_phase",),
    "topk(0.05, scope='model') | qsgd(8)": ("two_phase",),
    "topk(0.1, scope='model') | qsgd(4)": ("gather", "two_phase"),
    "topk(0.3, scope='model') | qsgd(4)": ("two_phase",),
}.items():
    for _exchange in _exchanges:
        HOOKS[f"`{_encoder}`, {_exchange}"] = with_fedplug(_encoder, exchange=_exchange)


def train(rank: int, meeting_point: str, jobs: list[tuple[str, int]], steps: int, results: Any) -> None:
    """Trains one rank with one hook and seed after the other."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=RANKS)
    text = read_text(RANKS)
    for name, seed in jobs:
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
            results.put((name, curve))
    dist.destroy_process_group()


def table(curves: dict[str, list[Curve]], steps: int, seeds: int) -> str:
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
        f"AdamW. Loss is the mean of {seeds} seeds and their standard deviation, in nats per character of "
        f"held-out modules. Traffic is what a rank sends in a step after {WARMUP_STEPS} dense ones: an "
        "all-reduce of m bytes sends 2 m (ranks - 1) / ranks in a ring; fedplug's is counted, with all sizes "
        "and headers. Times are not given, because the machine was busy with other work.",
        "",
        "| hook | loss | traffic | fewer bytes |",
        "| --- | --- | --- | --- |",
    ]
    for name, of_seeds in curves.items():
        losses = [curve[-1].loss for curve in of_seeds]
        spread = statistics.stdev(losses) if len(losses) > 1 else 0.0
        traffic = statistics.mean(curve[-1].traffic for curve in of_seeds)
        lines.append(
            f"| {name.replace('|', chr(92) + '|')} | {statistics.mean(losses):.3f} ± {spread:.3f} "
            f"| {traffic / compressed_steps:,.0f} | {dense / traffic:,.1f}x |"
        )
    return "\n".join(lines) + "\n"


def plot(curves: dict[str, list[Curve]], path: Path) -> None:
    """Plots the mean loss of the seeds against traffic."""
    look = pictures.looks({name: name == DENSE for name in curves})

    def paint(figure: Any) -> None:
        axes, ends = figure.subplots(), []
        for name, of_seeds in curves.items():
            points = [
                [statistics.mean(values) for values in zip(*at_step, strict=True)]
                for at_step in zip(*of_seeds, strict=True)
            ]
            color, style = look[name]
            axes.plot(*zip(*points, strict=True), marker=".", color=color, linestyle=style)
            ends.append((name.replace("`", ""), *points[-1], color))
        axes.set(xscale="log", xlabel="bytes sent by a rank after the warm-up")
        axes.set(ylabel="loss on held-out modules, nats")
        pictures.label_lines(axes, ends)

    pictures.save(path, 9, 5, paint)


def main() -> None:
    """Starts the processes, and writes table and picture after every seed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), metavar="FOLDER")
    arguments = parser.parse_args()
    jobs = [(name, seed) for seed in range(SEEDS) for name in HOOKS]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    curves: dict[str, list[Curve]] = {name: [] for name in HOOKS}
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = Path(folder, "ranks").as_uri()
        ranks = [
            context.Process(target=train, args=(rank, meeting_point, jobs, arguments.steps, results))
            for rank in range(RANKS)
        ]
        for process in ranks:
            process.start()
        for name, seed in jobs:
            found, curve = results.get()
            curves[found].append(curve)
            print(found, *curve, flush=True)
            if name == [*HOOKS][-1]:
                (arguments.out / "ddp_hooks.md").write_text(
                    table(curves, arguments.steps, seed + 1), encoding="utf-8"
                )
                plot(curves, arguments.out / "ddp_hooks.svg")
        for process in ranks:
            process.join()


if __name__ == "__main__":
    main()
