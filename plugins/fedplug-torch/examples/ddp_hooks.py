"""Compares loss and bytes of PyTorch's communication hooks for DDP with fedplug's hook.

``python examples/ddp_hooks.py`` trains the character model in four processes with every hook, and writes
examples/results/ddp_hooks.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fedplug_torch
import torch
import torch.distributed as dist
from standard_library import batch, held_out_loss, loss_of, new_model, read_text
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from fedplug.diagnostics.environment import environment

RANKS = 4
WARMUP_STEPS = 10
"""Number of first steps that fedplug and PowerSGD send dense; PowerSGD needs at least two."""


class Outcome(NamedTuple):
    """The results after the last step.

    Attributes:
        loss: The loss on the held-out text, in nats per character.
        message: Bytes of a rank's encoded gradients per step after the warm-up.
        traffic: Bytes per step that a rank sends through the network in a ring: an all-reduce of m bytes
            sends 2 m (ranks - 1) / ranks, an all-gather m (ranks - 1).
        seconds: The median duration of a step.
    """

    loss: float
    message: float
    traffic: float
    seconds: float


Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]


Measured = Callable[[int], tuple[float, float]]
"""Takes a number of steps; returns the message and the traffic after them, see `Outcome`."""


def with_torch(hook: Hook, element_bytes: int) -> Callable[[DistributedDataParallel], Measured]:
    """Registers one of PyTorch's hooks that reduce all elements."""

    def register(ddp: DistributedDataParallel) -> Measured:
        ddp.register_comm_hook(None, hook)
        message = element_bytes * sum(p.numel() for p in ddp.parameters())
        return lambda steps: (message, 2 * message * (RANKS - 1) / RANKS)

    return register


def with_power_sgd(rank: int) -> Callable[[DistributedDataParallel], Measured]:
    """Registers PowerSGD (Vogels et al. 2019), which counts the float32 elements that it sends."""

    def register(ddp: DistributedDataParallel) -> Measured:
        state = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=WARMUP_STEPS)
        ddp.register_comm_hook(state, powerSGD_hook)

        def measured(steps: int) -> tuple[float, float]:
            _, _, elements = state.compression_stats()
            message = 4 * elements / (steps - WARMUP_STEPS)
            return message, 2 * message * (RANKS - 1) / RANKS

        return measured

    return register


def with_fedplug(encoder: str) -> Callable[[DistributedDataParallel], Measured]:
    """Registers `fedplug_hook` with an encoder."""

    def register(ddp: DistributedDataParallel) -> Measured:
        state = fedplug_torch.FedplugState(encoder, ddp, warmup_steps=WARMUP_STEPS)
        ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)

        def measured(steps: int) -> tuple[float, float]:
            message = state.bytes_sent / (steps - WARMUP_STEPS)
            return message, message * (RANKS - 1)

        return measured

    return register


HOOKS = {
    "`allreduce_hook` (torch)": with_torch(default_hooks.allreduce_hook, 4),
    "`fp16_compress_hook` (torch)": with_torch(default_hooks.fp16_compress_hook, 2),
    "`powerSGD_hook`, rank 1 (torch)": with_power_sgd(1),
    "`powerSGD_hook`, rank 4 (torch)": with_power_sgd(4),
    "`fedplug_hook`, `identity`": with_fedplug("identity"),
    "`fedplug_hook`, `qsgd(8)`": with_fedplug("qsgd(8)"),
    "`fedplug_hook`, `topk(0.05)`": with_fedplug("topk(0.05)"),
    "`fedplug_hook`, `topk(0.01) \\| qsgd(8)`": with_fedplug("topk(0.01) | qsgd(8)"),
}


def train(rank: int, meeting_point: str, names: list[str], steps: int, results: Any) -> None:
    """Trains one rank with one hook after the other."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=RANKS)
    text = read_text(RANKS)
    for name in names:
        ddp = DistributedDataParallel(new_model())
        measured = HOOKS[name](ddp)
        optimizer = torch.optim.AdamW(ddp.parameters(), lr=2e-3)
        seconds = []
        for step in range(steps):
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss_of(ddp, *batch(text.shards[rank], (rank, step))).backward()
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
        if rank == 0:
            median = sorted(seconds)[len(seconds) // 2]
            results.put((name, Outcome(held_out_loss(ddp, text), *measured(steps), median)))
    dist.destroy_process_group()


def table(outcomes: dict[str, Outcome], steps: int) -> str:
    """Returns the Markdown table."""
    facts = environment()
    elements = sum(p.numel() for p in new_model().parameters())
    lines = [
        "# Communication hooks of DDP",
        "",
        f"Made by `python examples/ddp_hooks.py`: {facts['processor']}, {facts['cores']} cores, "
        f"{facts['simd']}, PyTorch {torch.__version__}, gloo, {RANKS} processes on one machine. "
        f"The character model ({elements:,} parameters), {steps} steps, AdamW. Bytes are of one step and "
        f"rank after {WARMUP_STEPS} dense ones: the message that a rank makes of its gradients, and what the "
        "rank then sends in a ring, where an all-reduce of m bytes sends 2 m (ranks - 1) / ranks and an "
        "all-gather of payloads m (ranks - 1). There is no network between these processes: time is that of "
        "computing, on cores that they share.",
        "",
        "| hook | loss | message | traffic | ms a step |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {o.loss:.3f} | {o.message:,.0f} | {o.traffic:,.0f} | {1e3 * o.seconds:.0f} |"
        for name, o in outcomes.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Starts the processes and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), metavar="FOLDER")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = Path(folder, "ranks").as_uri()
        ranks = [
            context.Process(target=train, args=(rank, meeting_point, list(HOOKS), arguments.steps, results))
            for rank in range(RANKS)
        ]
        for process in ranks:
            process.start()
        outcomes = dict(results.get() for _ in HOOKS)
        for process in ranks:
            process.join()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = table(outcomes, arguments.steps)
    (arguments.out / "ddp_hooks.md").write_text(lines, encoding="utf-8")
    print(lines)


if __name__ == "__main__":
    main()
