"""What ranks, and workers in one process, do in tests of the outer step."""

from __future__ import annotations

import digits
import fedplug_torch
import torch
import torch.distributed as dist

from fedplug.errors import FedplugError

INNER_STEPS = 4


class Worker:
    """A network, its inner optimizer and its outer step."""

    def __init__(self, number, encoder, *, inner_steps=INNER_STEPS, **arguments):
        self.number = number
        self.model = digits.network()
        self.inner = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.5)
        self.outer = fedplug_torch.OuterStep(self.model, encoder, inner_steps=inner_steps, **arguments)
        self.steps = 0

    def train(self):
        self.inner.zero_grad()
        digits.loss_of(self.model, self.steps, self.number).backward()
        self.inner.step()
        self.steps += 1

    def save(self):
        return {
            "model": self.model.state_dict(),
            "inner": self.inner.state_dict(),
            "outer": self.outer.state_dict(),
        }

    def load(self, saved, steps):
        self.model.load_state_dict(saved["model"])
        self.inner.load_state_dict(saved["inner"])
        self.outer.load_state_dict(saved["outer"])
        self.steps = steps


def train(encoder, steps, *, begin=0, saved=None, **arguments):
    worker = Worker(dist.get_rank(), encoder, **arguments)
    if saved:
        worker.load(saved[worker.number], begin)
    exchanged = []
    while worker.steps < steps:
        worker.train()
        if worker.outer.step():
            exchanged.append(worker.steps)
    return {
        "parameters": digits.parameters(worker.model),
        "accuracy": digits.accuracy(worker.model),
        "bytes": worker.outer.bytes_sent,
        "exchanged": exchanged,
        "saved": worker.save(),
    }


def begin_with_other_parameters():
    model = digits.network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(dist.get_rank())
    fedplug_torch.OuterStep(model, "identity", inner_steps=1)
    return digits.parameters(model)


def train_through_a_bad_parameter():
    """One rank has a parameter that is no number when it is to be sent, and repairs it."""
    worker = Worker(dist.get_rank(), "topk(0.1)", inner_steps=1)
    worker.train()
    bias = worker.model[0].bias
    good = bias.detach().clone()
    before = worker.outer.state_dict()
    error = ""
    if worker.number == 1:
        bias.data[0] = float("inf")
    try:
        worker.outer.step()
    except FedplugError as found:
        error = f"{type(found).__name__}: {found}"
    after = worker.outer.state_dict()
    unchanged = all(torch.equal(before[name], after[name]) for name in before if name != "inner_step")
    bias.data.copy_(good)
    return error, unchanged, worker.outer.step(), digits.parameters(worker.model)
