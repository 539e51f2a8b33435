"""Residuals of float16 and bfloat16 tensors are kept in float32."""

from __future__ import annotations

import fedplug_torch
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load, save

SIZE, ROUNDS = 40, 2000
DTYPES = [torch.float16, torch.bfloat16]
EXPRESSIONS = ["topk(count=1)", "topk(count=1) | qsgd(4)", "dgc(0.05, momentum=0)", "sign"]


def steady(dtype):
    update = torch.full([SIZE], 1e-3, dtype=dtype)
    update[0] = 1
    return update


def waiting(state):
    """Returns the only residual of a state."""
    (residual,) = (x for key, x in state.items() if key.endswith("residual"))
    assert residual.dtype == torch.float32
    return residual.reshape(-1).double()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_codec_keeps_what_it_does_not_send(expression, dtype):
    codec, state, sent = fedplug_torch.Codec(expression), None, torch.zeros(SIZE, dtype=torch.float64)
    for round_num in range(ROUNDS):
        payload, state = codec.encode(steady(dtype), state, round_num)
        sent += fedplug_torch.decode(payload).double()
        assert fedplug_torch.decode(payload).dtype == dtype
    torch.testing.assert_close(sent + waiting(state), ROUNDS * steady(dtype).double(), rtol=0, atol=1e-3)
    again, _ = codec.encode(steady(dtype), load(save(state)), ROUNDS)
    assert again == codec.encode(steady(dtype), state, ROUNDS)[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_outer_step_keeps_what_it_does_not_send(dtype):
    model = torch.nn.Linear(SIZE - 1, 1, dtype=dtype)
    parameters = [(name, p) for name, p in model.named_parameters() if name == "weight"]
    with torch.no_grad():
        model.weight.zero_()
    outer = fedplug_torch.OuterStep(
        parameters,
        fedplug_torch.Codec("topk(count=1)", min_size=0),
        inner_steps=1,
        optimizer=torch.optim.SGD([p for _, p in parameters], lr=0.0),
    )
    update, sent = steady(dtype)[:-1], torch.zeros(SIZE - 1, dtype=torch.float64)
    for _ in range(ROUNDS):
        with torch.no_grad():
            model.weight.copy_(-update.reshape(1, -1))
        payloads = outer.encode()
        sent += fedplug_torch.decode(payloads["weight"]).reshape(-1).double()
        outer.apply({"worker": payloads})
    total = sent + waiting(outer.state_dict())
    torch.testing.assert_close(total, ROUNDS * update.double(), rtol=0, atol=1e-3)


def hook_for_many_steps(dtype):
    """Sends one gradient in every step on every rank; returns the decoded sum and the residual."""
    model = torch.nn.Linear(SIZE, 1, bias=False, dtype=dtype)
    state = fedplug_torch.FedplugState(fedplug_torch.Codec("topk(count=1)", min_size=0), model)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
    arrived = torch.zeros(SIZE, dtype=torch.float64)
    for _ in range(ROUNDS // 4):
        ddp.zero_grad()
        ddp(steady(dtype)).sum().backward()
        arrived += ddp.module.weight.grad.reshape(-1).double()
    assert dist.get_world_size() == 2
    return arrived.numpy(), waiting(state.state_dict()).numpy()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_hook_keeps_what_it_does_not_send(two_ranks, dtype):
    for arrived, kept in two_ranks.run(hook_for_many_steps, dtype):
        wanted = ROUNDS // 4 * steady(dtype).double()
        torch.testing.assert_close(torch.from_numpy(arrived + kept), wanted, rtol=0, atol=1e-3)
