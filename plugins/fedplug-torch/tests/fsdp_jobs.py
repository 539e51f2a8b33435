"""Jobs of ranks in tests of sharded models."""

from __future__ import annotations

import digits
import fedplug_torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ddp_jobs import TwoHeads
from shard_jobs import mesh, sharded, whole
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import fedplug


def replica(replicas=2):
    return dist.get_rank(mesh(replicas).get_group("replicate"))


def hooked(encoder, replicas=2, memory="device", **arguments):
    model = sharded(replicas, **arguments)
    group = mesh(replicas).get_group("replicate")
    return model, fedplug_torch.ReplicaHook(encoder, model, process_group=group, memory=memory)


def full(tensors):
    """Returns the tensors without sharding, as arrays."""
    return {name: digits._array(tensor.full_tensor()) for name, tensor in tensors.items()}


def gradients(model):
    return full({name: p.grad for name, p in model.named_parameters()})


def residuals(hook):
    """Returns the residuals of this replica without sharding, by parameter."""
    state = {name: tensor for name, tensor in hook.state_dict().items() if isinstance(tensor, DTensor)}
    return {name.split("/")[1]: array for name, array in full(state).items()}


def gradients_of_one_step(encoder, replicas=2):
    """Returns the gradients of this rank alone, and those after an exchange."""
    alone = digits.network()
    digits.loss_of(alone, 0, dist.get_rank()).backward()
    model, _ = hooked(encoder, replicas)
    digits.loss_of(model, 0, dist.get_rank()).backward()
    return digits.gradients(alone), gradients(model)


def train(encoder, steps, replicas=2, begin=0, folder=None, save=False, **arguments):
    """Trains. Loads from or saves to a folder with torch.distributed.checkpoint."""
    model, hook = hooked(encoder, replicas, **arguments)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    if begin:
        state = {"model": model.state_dict(), "hook": hook}
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
    for step in range(begin, steps):
        optimizer.zero_grad()
        digits.loss_of(model, step, dist.get_rank()).backward()
        optimizer.step()
    if save:
        dcp.save({"model": model.state_dict(), "hook": hook}, checkpoint_id=folder)
    return {
        "parameters": whole(model),
        "residuals": residuals(hook),
        "replica": replica(replicas),
        "step": hook.step,
        "bytes": hook.bytes_sent,
        "dense bytes": hook.dense_bytes,
    }


def sent_and_kept(encoder, steps):
    """Returns the sum of this rank's own gradients, the mean gradients, and residuals of its replica."""
    model, hook = hooked(encoder)
    own, sent = {}, {}
    for step in range(steps):
        alone = digits.network()
        digits.loss_of(alone, step, dist.get_rank()).backward()
        model.zero_grad()
        digits.loss_of(model, step, dist.get_rank()).backward()
        for total, grads in ((own, digits.gradients(alone)), (sent, gradients(model))):
            for name, value in grads.items():
                total[name] = total.get(name, 0) + value
    return own, sent, residuals(hook), replica()


def train_through_an_error(bad_rank, bad_step, steps, skip=False):
    """Trains; in one step a rank has a NaN in its part of the loss, or no rank takes the step."""
    model, hook = hooked("topk(0.1)")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    errors = []
    for step in range(steps):
        if skip and step == bad_step:
            continue
        optimizer.zero_grad()
        loss = digits.loss_of(model, step, dist.get_rank())
        if step == bad_step and dist.get_rank() == bad_rank:
            loss = loss * float("nan")
        try:
            loss.backward()
        except fedplug_torch.RankError as error:
            errors.append((step, str(error), type(hook.error).__name__))
            continue
        optimizer.step()
    return errors, whole(model), residuals(hook), hook.step


class Damaging(fedplug.Codec):
    """A codec that cuts one payload short."""

    def encode_model(self, arrays, states=None, round_num=0, **kwargs):
        payloads, after = super().encode_model(arrays, states, round_num, **kwargs)
        return {name: payload[:-3] for name, payload in payloads.items()}, after


def send_damaged_payloads(bad_rank):
    model, hook = hooked("topk(0.1)")
    if dist.get_rank() == bad_rank:
        for unit in hook._units:
            unit.feedback.codec.__class__ = Damaging
    return digits.error_of(digits.loss_of(model, 0, dist.get_rank()).backward), hook.step


def accumulate():
    """Accumulates two batches in one step, with one exchange."""
    model, hook = hooked("identity")
    model.set_requires_gradient_sync(False)
    digits.loss_of(model, 0, dist.get_rank()).backward()
    model.set_requires_gradient_sync(True)
    digits.loss_of(model, 1, dist.get_rank()).backward()
    return gradients(model), hook.step


def in_mixed_precision():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model, hook = hooked("topk(0.1)", mp_policy=policy)
    digits.loss_of(model, 0, dist.get_rank()).backward()
    return gradients(model), {str(tensor.dtype) for name, tensor in hook.state_dict().items() if "/" in name}


def unused_parameters(allowed):
    """Uses one of two heads."""
    model = TwoHeads()
    fully_shard(model, mesh=mesh()["shard"])
    fedplug_torch.ReplicaHook("topk(0.1)", model, process_group=mesh().get_group("replicate"))
    model.set_reduce_scatter_unused_params(allowed)
    return digits.error_of(model(torch.ones(3, 20), "left").backward) or {
        name: p.grad.full_tensor().count_nonzero().item() for name, p in model.named_parameters()
    }


def frozen_layers():
    """Returns the gradients of a network of which one unit is frozen, and another in part."""
    model = digits.network()
    for frozen in (model[0].weight, model[0].bias, model[2].bias):
        frozen.requires_grad_(False)
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh()["shard"])
    fedplug_torch.ReplicaHook("identity", model, process_group=mesh().get_group("replicate"))
    digits.loss_of(model, 0, dist.get_rank()).backward()
    return full({name: p.grad for name, p in model.named_parameters() if p.grad is not None})


def unequal_starts():
    torch.manual_seed(dist.get_rank() // 2)
    model = torch.nn.Linear(30, 20)
    fully_shard(model, mesh=mesh()["shard"])
    fedplug_torch.ReplicaHook("identity", model, process_group=mesh().get_group("replicate"))
    return whole(model)


def refused(make, encoder="topk(0.1)"):
    """Returns the error of a hook for a model or an encoder that cannot have one."""
    group = mesh().get_group("replicate")
    return digits.error_of(fedplug_torch.ReplicaHook, encoder, make(), process_group=group)


def by_native_hsdp():
    return sharded(over=mesh())


def not_at_all():
    return digits.network()


def in_part():
    model = digits.network()
    fully_shard(model[0], mesh=mesh()["shard"])
    return model


def not_on_the_last_rank():
    return digits.network() if dist.get_rank() == 3 else sharded()


def by_fsdp_1():
    return FullyShardedDataParallel(digits.network(), device_id=torch.device("cpu"))


def by_another_parallelism():
    model = digits.network()
    placements = [Shard(0), Shard(1)]
    model[0].weight = torch.nn.Parameter(distribute_tensor(model[0].weight.detach(), mesh(), placements))
    return model


def with_different_names():
    model = digits.network()
    if replica() == 1:
        model.append(torch.nn.Linear(10, 10))
    return fully_shard(model, mesh=mesh()["shard"])


def on_the_meta_device():
    with torch.device("meta"):
        model = torch.nn.Linear(8, 8)
    return fully_shard(model, mesh=mesh()["shard"])


def of_another_encoder(_):
    return hooked("topk(0.1)")[1].state_dict()


def of_another_shape(state):
    key = next(key for key in state if key.endswith("4.weight/residual"))
    return {**state, key: state[key].to_local()[:1]}


def load_another_state(other):
    """Returns the error, and the residuals and steps before and after."""
    model, hook = hooked("topk(0.2)")
    digits.loss_of(model, 0, dist.get_rank()).backward()
    before, state = (residuals(hook), hook.step), other(hook.state_dict())
    return digits.error_of(hook.load_state_dict, state), before, (residuals(hook), hook.step)


def load_with_another_number_of_replicas(encoder, folder):
    """Returns the error of torch.distributed.checkpoint."""
    _, hook = hooked(encoder, replicas=4)
    try:
        dcp.load({"hook": hook}, checkpoint_id=folder)
    except dcp.CheckpointException as error:
        return str(error)
    return None
