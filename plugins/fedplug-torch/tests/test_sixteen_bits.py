"""Outer steps of float16 and bfloat16 parameters are computed in float32."""

from __future__ import annotations

import fedplug_torch
import pytest
import torch

from fedplug.errors import ArgumentError


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
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
