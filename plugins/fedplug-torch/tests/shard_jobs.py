"""Jobs of ranks in tests of the codec and the outer step on DTensors."""

from __future__ import annotations

import functools

import digits
import fedplug_torch
import torch
import torch.distributed as dist
from outer_jobs import INNER_STEPS, Worker
from safetensors.torch import load, save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor


@functools.cache
def mesh(replicas=2):
    shape = (replicas, dist.get_world_size() // replicas)
    return init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))


def sharded(replicas=2, over=None, **arguments):
    """Returns a network that is sharded layer by layer. The last layer belongs to the root module."""
    model = digits.network()
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=over or mesh(replicas)["shard"], **arguments)
    return model


def whole(model):
    """Returns the parameters without sharding."""
    return {name: digits._array(p.full_tensor().detach()) for name, p in model.named_parameters()}


# The codec -------------------------------------------------------------------------------------------------


def numbers(placement, seed=0):
    x = torch.randn(30, 20, generator=torch.Generator().manual_seed(seed))
    return distribute_tensor(x, init_device_mesh("cpu", (dist.get_world_size(),)), [placement])


def encode_shards(placement):
    """Returns whether a DTensor is encoded, and decoded into, like its local shard."""
    codec, state, local_state = fedplug_torch.Codec("topk(0.1) | qsgd(8)"), None, None
    for round_num in range(3):
        x = numbers(placement, round_num)
        payload, state = codec.encode(x, state and load(save(state)), round_num)
        payloads, model_state = codec.encode_model({"x": x})
        expected, local_state = codec.encode(x.to_local(), local_state, round_num)
        assert payload == expected
    out = numbers(placement, 9)
    assert fedplug_torch.decode(payload, out=out) is out
    assert torch.equal(out.to_local(), fedplug_torch.decode(payload))
    fedplug_torch.decode_model(payloads, out={"x": out})
    assert torch.equal(out.to_local(), fedplug_torch.decode(payloads["x"]))
    return bytes(model_state["shards"].tolist()).decode()


def encode_with_the_state_of(placement, other):
    """Returns the error of a state that belongs to other shards, or to a whole tensor."""
    codec = fedplug_torch.Codec("topk(0.1)")
    x, y = numbers(placement), numbers(placement).full_tensor() if other is None else numbers(other)
    _, state = codec.encode_model({"x": y})
    return digits.error_of(codec.encode_model, {"x": x}, state)


def encode_a_partial_sum():
    x = DTensor.from_local(torch.ones(30), init_device_mesh("cpu", (dist.get_world_size(),)), [Partial()])
    return digits.error_of(fedplug_torch.Codec("topk(0.1)").encode_model, {"x": x})


def encode_after_a_forward_pass():
    """Returns whether parameters that FSDP left whole are sharded when they are encoded."""
    model = sharded()
    before, _ = fedplug_torch.Codec("identity").encode_model(model)
    with torch.no_grad():
        digits.loss_of(model, 0, 0)
    assert not isinstance(dict(model.named_parameters())["4.weight"], DTensor)
    return before == fedplug_torch.Codec("identity").encode_model(model)[0]


# The outer step --------------------------------------------------------------------------------------------


def worker(encoder, **arguments):
    group = mesh().get_group("replicate")
    return Worker(dist.get_rank(group), encoder, model=sharded(), process_group=group, **arguments)


def train(encoder, exchanges, **arguments):
    """Trains two replicas, each with the batches of its number on all its ranks."""
    mine = worker(encoder, **arguments)
    for _ in range(exchanges * INNER_STEPS):
        mine.train()
        mine.outer.step()
    return whole(mine.model), mine.outer.bytes_sent, mine.outer.dense_bytes


def restart_in_the_middle(optimizer):
    """Trains without interruption, and again with a checkpoint between two exchanges."""
    whole_run, mine = (worker("topk(0.1)", make_optimizer=optimizer) for _ in range(2))
    for step in range(3 * INNER_STEPS):
        if step == INNER_STEPS + 2:
            saved = {**mine.save(), "outer": load(save(mine.outer.state_dict()))}
            mine = worker("topk(0.1)", saved=saved, make_optimizer=optimizer)
            mine.steps = step
        for each in (whole_run, mine):
            each.train()
            each.outer.step()
    return whole(whole_run.model), whole(mine.model)


def load_the_state_of_another_shard():
    """Returns the error, and whether anything changed."""
    mine = worker("topk(0.1)").outer
    states = [None] * dist.get_world_size()
    dist.all_gather_object(states, mine.state_dict())
    before = mine.state_dict()
    error, after = digits.error_of(mine.join, states[dist.get_rank() ^ 1]), mine.state_dict()
    return error, all(torch.equal(before[key], after[key]) for key in before)


def refused_groups():
    """Returns the errors without a group, and with groups of ranks that have other shards."""
    groups = None, dist.group.WORLD, mesh().get_group("shard")
    make = functools.partial(fedplug_torch.OuterStep, encoder="identity", inner_steps=1)
    return [digits.error_of(make, sharded(), process_group=group) for group in groups]


def two_parallelisms():
    """Exchanges a parameter that is sharded over both dimensions of a mesh. Each rank is its own group."""
    x = torch.arange(64.0).reshape(8, 8)
    model = torch.nn.ParameterDict({"w": distribute_tensor(x, mesh(), [Shard(0), Shard(1)])})
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    outer = fedplug_torch.OuterStep(model, "identity", inner_steps=1, process_group=groups[dist.get_rank()])
    with torch.no_grad():
        model["w"].to_local().add_(1)
    outer.step()
    return torch.allclose(model["w"].full_tensor(), x + 1.33)
