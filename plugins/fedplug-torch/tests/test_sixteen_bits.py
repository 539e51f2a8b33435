"""Residuals of float16 and bfloat16 tensors are kept in float32."""

from __future__ import annotations

import fedplug_torch
import pytest
import torch

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
