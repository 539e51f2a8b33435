"""Jobs of ranks, and of workers in one process, in tests of the outer step."""

from __future__ import annotations

import copy

import digits
import fedplug_torch
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from fedplug.errors import FedplugError

INNER_STEPS = 4


class Worker:
    """A network, its inner optimizer and its outer step."""

    def __init__(
        self,
        number,
        encoder,
        *,
        model=None,
        inner_steps=INNER_STEPS,
        saved=None,
        make_optimizer=None,
        **arguments,
    ):
        """Restores ``saved`` in the usual order: model, inner optimizer, outer step."""
        self.number = number
        self.model = model or digits.network()
        self.inner = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.5)
        if make_optimizer:
            arguments["optimizer"] = make_optimizer(self.model.parameters())
        if saved:
            self.model.load_state_dict(saved["model"])
            self.inner.load_state_dict(saved["inner"])
        self.outer = fedplug_torch.OuterStep(self.model, encoder, inner_steps=inner_steps, **arguments)
        if saved:
            self.outer.load_state_dict(saved["outer"])
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


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def begin_with_other_parameters():
    model = digits.network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(dist.get_rank())
    fedplug_torch.OuterStep(model, "identity", inner_steps=1)
    return digits.parameters(model)


def different_parameters(change):
    """Returns a rank's error if the model of rank 1 differs, and whether its own model changed."""
    model = digits.network()
    if dist.get_rank() == 1:
        model = change(model)
    before = copy.deepcopy(model.state_dict())
    error = digits.error_of(fedplug_torch.OuterStep, model, "identity", inner_steps=1)
    return error, all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def wider(model):
    model[4] = torch.nn.Linear(32, 12)
    return model


def deeper(model):
    return model.append(torch.nn.Linear(10, 10))


def in_another_order(model):
    first = torch.nn.Sequential()
    for name in ("4", "3", "2", "1", "0"):
        first.add_module(name, getattr(model, name))
    return first


def in_float8(model):
    model[2].weight = torch.nn.Parameter(model[2].weight.to(torch.float8_e4m3fn))
    return model


def sharded_by_fsdp(original_parameters):
    model = FullyShardedDataParallel(
        digits.network(), use_orig_params=original_parameters, device_id=torch.device("cpu")
    )
    return _refused(model)


def sharded_by_fully_shard():
    model = digits.network()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return _refused(model)


def _refused(model):
    of_outer_steps = [
        digits.error_of(fedplug_torch.OuterStep, parameters, "identity", inner_steps=1)
        for parameters in (model, model.named_parameters())
    ]
    return [*of_outer_steps, digits.error_of(fedplug_torch.FedplugState, "identity", model)]


class FailingOnce(torch.optim.SGD):
    """An optimizer with momentum that has no memory for its first step, or for a part of it."""

    def __init__(self, parameters, when="before"):
        super().__init__(parameters, lr=0.5, momentum=0.9)
        self._when, self._steps = when, 0

    def step(self, closure=None):
        self._steps += 1
        if self._steps == 1 and self._when == "between":
            (group,) = self.param_groups
            everything = group["params"][:]
            group["params"][:] = everything[:1]
            super().step()
        if self._steps == 1 and self._when != "never":
            raise torch.OutOfMemoryError("no memory")
        return super().step(closure)


def train_through_an_error_of_the_optimizer(**arguments):
    """Trains while the optimizer of rank 1 fails once. Returns the results of `step`, and the anchors."""
    rank = dist.get_rank()
    when = "between" if rank == 1 else "never"
    worker = Worker(
        rank, "topk(0.1)", make_optimizer=lambda ps: FailingOnce(ps, when), inner_steps=4, **arguments
    )
    seen = []
    for _ in range(12):
        worker.train()
        try:
            seen.append(worker.outer.step())
        except FedplugError as error:
            seen.append(f"{type(error).__name__}: {error}")
    state = worker.outer.state_dict()
    anchors = {key.partition("/")[2]: state[key].numpy() for key in state if "/anchor/" in key}
    return seen, anchors
