"""Residuals of float16 and bfloat16 tensors are kept in float32."""

from __future__ import annotations

import fedplug_torch
import pytest
import torch

from fedplug.errors import ArgumentError

SIZE, ROUNDS = 40, 2000
DTYPES = [torch.float16, torch.bfloat16]


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
def test_an_outer_step_keeps_unsent_changes(dtype):
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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_small_mean_changes_add_up(dtype):
    """One of four workers moves an entry by a unit in the last place in each interval."""
    unit, workers = torch.finfo(dtype).eps, []
    for _ in range(4):
        model = torch.nn.Linear(10, 10, bias=False).to(dtype)
        torch.nn.init.ones_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        workers.append(
            (model, fedplug_torch.OuterStep(model, "identity", inner_steps=1, optimizer=optimizer))
        )
    for interval in range(100):
        with torch.no_grad():
            workers[interval % 4][0].weight.add_(unit)
        messages = {str(place): outer.encode() for place, (_, outer) in enumerate(workers)}
        for _, outer in workers:
            outer.apply(messages)
    for model, _ in workers:
        assert ((model.weight.double() - 1) / unit - 25).abs().max() <= 1


@pytest.mark.parametrize("attribute", ["main_param", "_hp_mapping"])
def test_parameters_that_are_linked_to_masters_are_refused(attribute):
    model = torch.nn.Linear(10, 10).bfloat16()
    setattr(model.weight, attribute, model.weight.detach().float())
    with pytest.raises(ArgumentError, match=r"'weight' has a float32 master .* pass the masters"):
        fedplug_torch.OuterStep(model, "identity", inner_steps=1)
