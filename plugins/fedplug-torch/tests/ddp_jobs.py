"""Jobs that the ranks run in tests of the hook."""

from __future__ import annotations

import copy
import os
import pickle

import fedplug_torch
import numpy as np
import torch
import torch.distributed as dist
from digits import error_of, gradients, hooked, loss_of, network, parameters
from fedplug_torch import reduction
from fedplug_torch.exchange import Exchange
from fedplug_torch.process_group import OwnGroup
from fedplug_torch.rank_state import part_of
from torch.nn.parallel import DistributedDataParallel

import fedplug


def mean_and_its_parts(dtype):
    """Returns each rank's own gradients, and those of one step with ``identity``."""
    model = network(dtype)
    loss_of(model, 0, dist.get_rank()).backward()
    own = gradients(model)
    ddp, _ = hooked("identity", network(dtype))
    loss_of(ddp, 0, dist.get_rank()).backward()
    return own, gradients(ddp.module)


def cut_short(payload):
    return payload[:-3]


def blown_up(payload):
    return payload + bytes(10**6)


class Damaging(fedplug.Codec):
    """A codec that damages the first payload of one parameter, or of a part of it, from one round on."""

    def __init__(self, damage, name, round_num):
        super().__init__(fedplug.encoder("topk(0.1)"))
        self._damage, self._name, self._round_num = damage, name, round_num
        self._done = []  # copies of this codec, for parts of the model, have the same list

    def encode_model(self, arrays, states=None, round_num=0, **kwargs):
        payloads, after = super().encode_model(arrays, states, round_num, **kwargs)
        found = [name for name in payloads if name.startswith(self._name)]
        if found and round_num == self._round_num and not self._done:
            payloads[found[0]] = self._damage(payloads[found[0]])
            self._done.append(round_num)
        return payloads, after


def out_of_memory(uses):
    """Lets the last use of `means_of` fail after the payloads were exchanged."""
    means_of = reduction.means_of

    def failing(*args, **kwargs):
        nonlocal uses
        uses -= 1
        if not uses:
            reduction.means_of = means_of
            raise torch.OutOfMemoryError("no memory")
        return means_of(*args, **kwargs)

    reduction.means_of = failing


def train_through_an_error(damage, steps, bad_step, of_mean=False):
    """Trains, and skips the step in which rank 1 has an error."""
    rank = dist.get_rank()
    damaging = fedplug.codec("topk(0.1)")
    if damage not in (None, out_of_memory) and rank == 1:
        damaging = Damaging(damage, "0.weight", bad_step)
    encoders = ("topk(0.1)", damaging) if of_mean else (damaging, "topk(0.1)")
    model = network()
    ddp, state = hooked(encoders[0], model, mean_encoder=encoders[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    errors = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(ddp, step, rank)
        if (step, rank, damage) == (bad_step, 1, None):
            loss = loss * torch.tensor(float("nan"))
        if (step, rank, damage) == (bad_step, 1, out_of_memory):
            out_of_memory(2 if dist.get_world_size() > 2 else 1)
        try:
            loss.backward()
        except RuntimeError as error:
            errors.append((step, str(error), type(state.error).__name__))
            continue
        optimizer.step()
    return errors, parameters(model), state.step, residuals(state)


def residuals(state):
    saved = own_part(state)
    return {name: tensor.numpy() for name, tensor in saved.items() if name.endswith("/residual")}


def own_part(state):
    return part_of(state.state_dict(), dist.get_rank(), "")


def train_without_step(steps, left_out):
    rank = dist.get_rank()
    model = network()
    ddp, state = hooked("topk(0.1)", model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(steps):
        if step != left_out:
            optimizer.zero_grad()
            loss_of(ddp, step, rank).backward()
            optimizer.step()
    return parameters(model), residuals(state)


class TwoHeads(torch.nn.Module):
    """A network with two heads. Each step uses one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.left, self.right = (torch.nn.Linear(20, 20) for _ in range(3))

    def forward(self, x, head):
        return getattr(self, head)(self.body(x)).square().sum()


def use_heads(turns):
    """Trains with the heads in ``turns``, by step and rank. Returns gradients and residuals of each step."""
    ddp, state = hooked("topk(0.1)", TwoHeads(), {"find_unused_parameters": True})
    seen = []
    for step, heads in enumerate(turns):
        ddp.zero_grad()
        x = torch.randn(8, 20, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
        ddp(x, heads[dist.get_rank()]).backward()
        grads = {
            name: None if p.grad is None else p.grad.numpy() for name, p in ddp.module.named_parameters()
        }
        seen.append((grads, residuals(state)))
    return seen


class Strange(torch.nn.Module):
    """A network whose parameters DDP lays out in other orders than C order."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        rows = torch.randn(60, 40)
        self.complex = torch.nn.Parameter(torch.randn(30, 20, dtype=torch.complex64))
        self.turned = torch.nn.Parameter(torch.randn(30, 20, dtype=torch.complex64).T)
        self.transposed = torch.nn.Parameter(torch.randn(30, 40).T)
        self.channels_last = torch.nn.Parameter(torch.randn(8, 3, 5, 5).to(memory_format=torch.channels_last))
        self.with_gaps = torch.nn.Parameter(rows[:, ::2])

    def forward(self, x):
        return sum((p * x * torch.arange(p.numel()).reshape(p.shape)).abs().sum() for p in self.parameters())


class Recording(fedplug.Codec):
    """A codec that records the arrays it encodes."""

    def __init__(self, encoder):
        super().__init__(encoder)
        self.arrays = {}  # the hook's copy of this codec has the same dictionary

    def encode_model(self, arrays, states=None, round_num=0, **kwargs):
        self.arrays.update({name: array.copy() for name, array in arrays.items()})
        return super().encode_model(arrays, states, round_num, **kwargs)


def gradients_of_strange_parameters(encoder):
    """Returns for each step the gradients without DDP, the encoded arrays, and the gradients after DDP."""
    codec, x = Recording(fedplug.encoder(encoder)), 1.0 + dist.get_rank()
    ddp, _ = hooked(codec, Strange())
    steps = []
    for _ in range(2):  # DDP rebuilds its buckets after the first
        alone = Strange()
        alone(x).backward()
        ddp.zero_grad()
        ddp(x).backward()
        given = {name: array.copy() for name, array in codec.arrays.items()}
        steps.append((gradients(alone), given, gradients(ddp.module)))
    return steps


def train_through_errors(bad_steps, encoder="topk(0.1)", **ddp_arguments):
    """Returns the steps that fail, and the parameters after the others; a step uses one of two heads."""
    model = TwoHeads()
    ddp, state = hooked(encoder, model, ddp_arguments)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    failed = []
    for step, head in enumerate(("left", "right", "left", "left", "right")):
        optimizer.zero_grad()
        x = torch.randn(8, 20, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
        if step in bad_steps and dist.get_rank() == 1:
            x[0, 0] = float("nan")
        try:
            ddp(x, "left" if ddp_arguments.get("static_graph") else head).backward()
        except fedplug_torch.RankError:
            failed.append(step)
            continue
        optimizer.step()
    return failed, state.step, parameters(model)


def leave_early(bad_step):
    """Trains two steps more on rank 1 than on rank 0, under DDP's ``join``."""
    ddp, state = hooked("topk(0.1)", network())
    failed = []
    with ddp.join():
        for step in range(2 + 2 * dist.get_rank()):
            ddp.zero_grad()
            loss = loss_of(ddp, step, dist.get_rank())
            try:
                (loss * float("nan") if step == bad_step else loss).backward()
            except fedplug_torch.RankError:
                failed.append(step)
    return failed, state.step


def deep_copied(ddp, state):
    return copy.deepcopy((ddp, state))


def pickled(ddp, state):
    return pickle.loads(pickle.dumps((ddp, state)))


def train_a_copy(copied, encoder):
    """Returns the parameters after three steps, and after one step, a copy and two steps of the copy."""
    found = []
    for copy_after in (None, 1):
        ddp, state = hooked(encoder, network())
        for step in range(3):
            if step == copy_after:
                ddp, state = copied(ddp, state)
                ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
            ddp.zero_grad()
            loss_of(ddp, step, dist.get_rank()).backward()
            with torch.no_grad():
                for p in ddp.parameters():
                    p.sub_(0.1 * p.grad)
        found.append((parameters(ddp.module), state.state_dict()))
    return found


def use_the_copy_of_another_rank():
    """Returns the errors of both ranks if both resume from the state of rank 0."""
    ddp, state = hooked("topk(0.1)", network())
    loss_of(ddp, 0, dist.get_rank()).backward()
    sent = [(ddp.module, state)]
    dist.broadcast_object_list(sent, src=0)
    model, state = sent[0]
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
    return error_of(loss_of(ddp, 0, dist.get_rank()).backward)


def copy_with_a_group_of_its_own():
    group = dist.new_group()
    outer = fedplug_torch.OuterStep(network(), "identity", inner_steps=1, process_group=group)
    state = fedplug_torch.FedplugState("topk(0.1)", network(), process_group=group)
    return [error_of(copy.deepcopy, kept) for kept in (state, outer)]


def unfreeze_a_layer():
    """Returns residuals while other layers are trained, each time in a new DDP model with the same state."""
    model = network()
    model[0].requires_grad_(False)
    state = fedplug_torch.FedplugState("topk(0.1)", model)
    seen = []
    for step, layers in enumerate((model[:0], model[:1], model[:1])):
        layers.requires_grad_(True)
        model[4].requires_grad_(step == 0)
        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
        loss_of(ddp, step, dist.get_rank()).backward()
        seen.append(set(residuals(state)))
    return seen


def make_a_layer_late():
    """Trains a module that gets its last layer after its state was created."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 10))
    state = fedplug_torch.FedplugState("topk(0.1)", model)
    model.append(torch.nn.Linear(10, 10))
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
    loss_of(ddp, 0, dist.get_rank()).backward()
    return state.step


def sparse_gradients():
    embedding = torch.nn.Embedding(100, 8, sparse=True)
    ddp, _ = hooked("topk(0.1)", embedding)
    return error_of(ddp(torch.arange(10)).sum().backward)


def announce(first, size):
    """Rank 1 announces an error of a length or a payload of a size. Returns the error of each rank."""
    exchange = Exchange(OwnGroup())
    if dist.get_rank() == 0:
        return error_of(exchange.all_gather, {"w": b"text"}, {"w": 100})
    message = np.array([first, size]).view(np.uint8), np.frombuffer(b"text", np.uint8)
    return error_of(exchange._exchange, [message] * 2, [{"w": 100}] * 2)


def error_of_other_arguments(name, values):
    ddp, _ = hooked(**{"encoder": "topk(0.1)", "model": network(), name: values[dist.get_rank()]})
    return error_of(loss_of(ddp, 0, dist.get_rank()).backward)


def count_bytes(steps):
    """Returns the bytes that the state has counted, and those of all messages that torch.distributed sent."""
    ddp, state = hooked("topk(0.1)", network())
    state._require_same_messages()  # is not counted
    sent, connected = [], OwnGroup.connected

    class Counting:
        def __init__(self, group):
            self.recv = group.recv
            self._send = group.send

        def send(self, tensors, *args):
            sent.extend(tensor.nbytes for tensor in tensors)
            return self._send(tensors, *args)

    OwnGroup.connected = lambda group: Counting(connected(group))
    try:
        for step in range(steps):
            loss_of(ddp, step, dist.get_rank()).backward()
    finally:
        OwnGroup.connected = connected
    return state.bytes_sent, sum(sent), state.dense_bytes


def residuals_and_gradients():
    """Returns the sums of the gradients of three steps before and after the exchange, and the state."""
    rank = dist.get_rank()
    ddp, state = hooked("topk(0.1)", network())
    sent = {name: np.zeros_like(value) for name, value in parameters(ddp.module).items()}
    own = {name: np.zeros_like(value) for name, value in parameters(ddp.module).items()}
    for step in range(3):
        alone = network()
        loss_of(alone, step, rank).backward()
        ddp.zero_grad()
        loss_of(ddp, step, rank).backward()
        for name, value in gradients(alone).items():
            own[name] += value
        for name, value in gradients(ddp.module).items():
            sent[name] += value
    return own, sent, residuals(state)


def die_in_the_second_step():
    """Ends rank 1 in the second step. Returns the errors of the others."""
    ddp, _ = hooked("topk(0.1)", network())
    loss_of(ddp, 0, dist.get_rank()).backward()
    loss = loss_of(ddp, 1, dist.get_rank())
    if dist.get_rank() == 1:
        os._exit(1)
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error)
    return ""


def hook_of_another_module():
    ddp = DistributedDataParallel(network())
    ddp.register_comm_hook(fedplug_torch.FedplugState("topk(0.1)", network()), fedplug_torch.fedplug_hook)
    return error_of(loss_of(ddp, 0, dist.get_rank()).backward)
