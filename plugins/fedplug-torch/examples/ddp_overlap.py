"""Compares the duration of steps of DDP whose exchange overlaps with the backward pass or follows it.

``python examples/ddp_overlap.py`` trains two copies of a network in turn, in two processes over gloo, and
writes examples/results/ddp_overlap.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import fedplug_torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fedplug.diagnostics.environment import environment

RANKS = 2
ENCODERS = "topk(0.01) | qsgd(8)", "qsgd(8)"
WIDTH, LAYERS, BATCH, BUCKET_MB = 512, 4, 256, 1


def model() -> torch.nn.Module:
    """Returns a network whose backward pass takes longer than the exchange."""
    torch.manual_seed(0)
    layers = [module for _ in range(LAYERS) for module in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)


def measure(rank: int, meeting_point: str, steps: int, results: Any) -> None:
    """Puts the seconds of steps of rank 0: without a hook, with the exchange afterwards, and during."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=RANKS)
    x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(rank))
    for encoder in ENCODERS:
        alone, ddps = model(), []
        for overlap in (False, True):
            ddp = DistributedDataParallel(model(), bucket_cap_mb=BUCKET_MB)
            state = fedplug_torch.FedplugState(encoder, ddp, overlap=overlap)
            ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
            ddps.append(ddp)
        seconds: list[list[float]] = []
        for _ in range(3 + steps):  # the first steps do not overlap
            seconds.append([])
            for network in (alone, *ddps):
                dist.barrier()
                begin = time.perf_counter()
                network(x).square().mean().backward()
                seconds[-1].append(time.perf_counter() - begin)
        if rank == 0:
            results.put((encoder, seconds[3:]))
    dist.destroy_process_group()


def table(measured: dict[str, list[list[float]]], steps: int) -> str:
    """Returns the Markdown page."""
    load = os.getloadavg()[0]
    state = "busy with other work" if load > RANKS + 1 else "otherwise idle"
    lines = [
        "# Overlap of exchange and backward pass",
        "",
        f"Made by `python examples/ddp_overlap.py`: {environment()['processor']}, {os.cpu_count()} cores, "
        f"{state} (load average {load:.0f}); PyTorch {torch.__version__}, gloo, {RANKS} processes of one "
        f"thread, {LAYERS} layers of {WIDTH} x {WIDTH}, batches of {BATCH}, buckets of {BUCKET_MB} MiB. "
        f"Medians over {steps} steps that take turns: the duration of the exchange as a share of a step "
        "without a hook, and that of a step with overlap, divided by that of a step without.",
        "",
        "| encoder | exchange / step without hook | step with overlap / without |",
        "| --- | --- | --- |",
    ]
    for encoder, seconds in measured.items():
        share = statistics.median((after - alone) / alone for alone, after, _ in seconds)
        ratio = statistics.median(during / after for _, after, during in seconds)
        lines.append(f"| `{encoder.replace('|', chr(92) + '|')}` | {share:.2f} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Starts the processes, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), metavar="FOLDER")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = Path(folder, "ranks").as_uri()
        processes = [
            context.Process(target=measure, args=(rank, meeting_point, arguments.steps, results))
            for rank in range(RANKS)
        ]
        for process in processes:
            process.start()
        measured = dict(results.get() for _ in ENCODERS)
        for process in processes:
            process.join()
    lines = table(measured, arguments.steps)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "ddp_overlap.md").write_text(lines, encoding="utf-8")
    print(lines)


if __name__ == "__main__":
    main()
