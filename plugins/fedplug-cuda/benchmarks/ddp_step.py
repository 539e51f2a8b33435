"""Times a training step of DistributedDataParallel on a GPU, dense and with `fedplug_hook`, on two ranks.

    python plugins/fedplug-cuda/benchmarks/ddp_step.py

Both ranks share one GPU and exchange over gloo. The model has 8.4M parameters. Prints a table with a row for
each way: the median milliseconds of a backward pass.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time

import fedplug_torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RANKS, WARMUP, STEPS = 2, 5, 20
ENCODERS = ("", "topk(0.01, scope='model') | qsgd(8)", "topk(0.01) | qsgd(8)", "qsgd(8)")
"""Encoders. No encoder is dense DDP."""


def backward_ms(ddp: DistributedDataParallel) -> float:
    """The median time of a backward pass after the warm-up."""
    x, times = torch.randn(32, 1024, device="cuda"), []
    for _ in range(WARMUP + STEPS):
        ddp.zero_grad()
        loss = ddp(x).square().mean()
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        loss.backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[WARMUP:])


def rank_main(rank: int, meeting_point: str) -> None:
    """Measures all encoders. Rank 0 prints."""
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    for encoder in ENCODERS:
        layers = [torch.nn.Linear(1024, 1024) for _ in range(8)]
        ddp = DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
        name = "dense"
        if encoder:
            name = "`" + encoder.replace("|", "\\|") + "`"
            state = fedplug_torch.FedplugState(encoder, ddp, warmup_steps=2)
            ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
        taken = backward_ms(ddp)
        if rank == 0:
            print(
                f"| backward pass of 8.4M parameters, 2 ranks over gloo, {name} | {taken:.2f} ms |",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    print("| work | time |\n| --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_main, (os.path.join(folder, "meeting"),), nprocs=RANKS)
