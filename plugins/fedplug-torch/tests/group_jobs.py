"""Jobs of ranks in tests of fedplug's own process groups."""

from __future__ import annotations

import tempfile
from pathlib import Path

import digits
import torch
import torch.distributed as dist
from fedplug_torch import OuterStep
from outer_jobs import Worker
from torch.nn.parallel import DistributedDataParallel


def hooked(model, **arguments):
    return digits.hooked("identity", model, arguments)[0]


def a_step_of_the_hook():
    hooked(torch.nn.Linear(20, 10))(torch.ones(4, 20)).sum().backward()


def an_outer_step():
    assert OuterStep(torch.nn.Linear(20, 10), "identity", inner_steps=1).step()


def with_a_posted_receive(use):
    """Returns the message that rank 0 receives from rank 1, which sends it after an exchange of fedplug."""
    received = torch.zeros(2, dtype=torch.int64)
    posted = dist.irecv(received, 1) if dist.get_rank() == 0 else None
    use()
    if posted is None:
        dist.send(torch.tensor([7, 8]), 0)
        return None
    posted.wait()
    return received.tolist()


class Ring(torch.autograd.Function):
    """Adds the gradient of the other rank."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        other, peer = torch.empty_like(gradient), 1 - dist.get_rank()
        for work in (dist.irecv(other, peer), dist.isend(gradient.contiguous(), peer)):
            work.wait()
        return gradient + other


class Ringed(torch.nn.Linear):
    def forward(self, x):
        return Ring.apply(super().forward(x))


def steps_of_a_ring(steps):
    ddp = hooked(torch.nn.Sequential(*(Ringed(32, 32) for _ in range(3))), bucket_cap_mb=0.001)
    for _ in range(steps):
        ddp(torch.ones(8, 32)).sum().backward()
    return steps


def means_in_subgroups():
    """Returns a mean of gradients of two ranks, by plain DDP and by the hook."""
    rank = dist.get_rank()
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    seen = []
    for make in (DistributedDataParallel, hooked):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1, bias=False)
        ddp = make(model, process_group=groups[rank // 2])
        ddp(torch.full((1, 4), float(rank))).sum().backward()
        seen.append(model.weight.grad[0, 0].item())
    return seen


def exchange_after_a_group_of_rank_0():
    dist.new_group([0])
    group = dist.new_group([0, 1])
    outer = OuterStep(torch.nn.Linear(20, 10), "identity", inner_steps=1, process_group=group)
    return outer.step()


def restart_during_a_delay():
    """Trains, starts torch.distributed anew while a message is in transit, and trains on."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder, src=0)
    worker = Worker(rank, "topk(0.1)", inner_steps=3, fragment_sync_delay=1)
    seen = []
    for step in range(12):
        if step == 5:
            dist.barrier()
            dist.destroy_process_group()
            meeting_point = Path(folder[0], "again").as_uri()
            dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=ranks)
        worker.train()
        seen.append(worker.outer.step())
    return seen
