"""Jobs of ranks in tests of fragments, delay and mixing."""

from __future__ import annotations

import time
from pathlib import Path

import digits
import torch
import torch.distributed as dist
from digits import error_of
from outer_jobs import Worker
from safetensors.torch import load, save

from fedplug.errors import FedplugError

STREAMING = {
    "inner_steps": 6,
    "fragments": 2,
    "fragment_sync_delay": 1,
    "fragment_update_alpha": 0.5,
}


def train(encoder, steps, restart_at=(), **arguments):
    """Trains, and makes everything anew from its state after some of the steps."""
    worker = Worker(dist.get_rank(), encoder, **arguments)
    while worker.steps < steps:
        worker.train()
        worker.outer.step()
        if worker.steps in restart_at:
            saved = {**worker.save(), "outer": load(save(worker.outer.state_dict()))}
            steps_so_far = worker.steps
            worker = Worker(worker.number, encoder, saved=saved, **arguments)
            worker.steps = steps_so_far
            again = worker.outer.state_dict()
            assert again.keys() == saved["outer"].keys()
            assert all(torch.equal(again[name], saved["outer"][name]) for name in again)
    return {
        "parameters": digits.parameters(worker.model),
        "bytes": worker.outer.bytes_sent,
        "saved": worker.save(),
    }


def train_among_other_collectives(steps, **arguments):
    """Trains while the program uses the default process group in every step."""
    worker = Worker(dist.get_rank(), "topk(0.1)", **arguments)
    sums = []
    while worker.steps < steps:
        worker.train()
        worker.outer.step()
        total = torch.tensor(float(worker.steps + worker.number))
        dist.all_reduce(total)
        sums.append(float(total))
    return digits.parameters(worker.model), sums


def train_on_while_the_other_is_late(folder):
    """Rank 1 sends only after rank 0 has trained on, which would never happen if rank 0 waited."""
    worker = Worker(dist.get_rank(), "topk(0.1)", inner_steps=4, fragment_sync_delay=2)
    went_on = Path(folder, "rank 0 went on")
    applied = []
    for step in range(1, 5):
        worker.train()
        if step == 2 and worker.number == 1:
            while not went_on.exists():
                time.sleep(0.01)
        applied.append(worker.outer.step())
        if step == 3 and worker.number == 0:
            went_on.touch()
    return applied, digits.parameters(worker.model)


def train_through_a_bad_parameter():
    """Rank 1 has an infinite parameter when it sends, and repairs it during the delay."""
    worker = Worker(dist.get_rank(), "topk(0.1)", inner_steps=4, fragments=2, fragment_sync_delay=1)
    weight = worker.model[0].weight
    errors = []
    for step in range(7):
        worker.train()
        good = weight.detach().clone()
        if worker.number == 1 and step == 0:
            weight.data[0] = float("inf")
        try:
            errors.append(worker.outer.step())
        except FedplugError as error:
            errors.append(f"{type(error).__name__}: {error}")
        if worker.number == 1 and step == 0:
            weight.data.copy_(good)
    return errors, digits.parameters(worker.model)


def with_an_argument_by_rank(name, *values, **others):
    return error_of(
        Worker, dist.get_rank(), "identity", **{**STREAMING, **others, name: values[dist.get_rank()]}
    )


def load_states_of_different_steps(saved):
    worker = Worker(dist.get_rank(), "topk(0.1)", inner_steps=2)
    worker.load(saved[worker.number], 0)
    worker.train()
    first = error_of(worker.outer.step)
    worker.train()
    return first, error_of(worker.outer.step), digits.parameters(worker.model)


def go_on_with_another_number_of_ranks(saved, steps, **arguments):
    """Ranks with a state of their own load it, and the others join."""
    worker = Worker(dist.get_rank(), "topk(0.1)", **arguments)
    if worker.number < len(saved):
        worker.load(saved[worker.number], 0)
    else:
        worker.outer.join(saved[0]["outer"])
    for _ in range(steps):
        worker.train()
        worker.outer.step()
    return worker.save()
