"""Saved states that every later release must continue. As a program, this file writes the missing ones.

``golden/NAME.safetensors`` has the state before a step, and what follows: the payloads of `OuterStep`,
the residuals of `FedplugState`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from digits import hooked
from fedplug_torch import OuterStep
from ranks import one_rank
from safetensors.torch import load_file, save_file

GOLDEN = Path(__file__).parent / "golden"


def numbers(shape, seed):
    """Returns small multiples of 1/64: their sums are exact on every machine."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37 + seed * 11) % 101 - 50).reshape(shape) / 64


def new_model():
    model = torch.nn.Sequential(torch.nn.Linear(20, 10), torch.nn.Linear(10, 5))
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            p.copy_(numbers(p.shape, number))
    return model


def new_outer():
    model = new_model()
    return model, OuterStep(model, "topk(0.1) | qsgd(8)", inner_steps=4)


def train(model, seed):
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            p.sub_(numbers(p.shape, seed + number) / 8)


def split(name):
    parts = {"state": {}, "after": {}}
    for key, tensor in load_file(GOLDEN / f"{name}.safetensors").items():
        part, _, rest = key.partition("/")
        parts[part][rest] = tensor
    return parts["state"], parts["after"]


def save(name, state, after):
    parts = {"state/" + key: tensor for key, tensor in state.items()}
    parts |= {"after/" + key: tensor for key, tensor in after.items()}
    save_file({key: tensor.contiguous() for key, tensor in parts.items()}, GOLDEN / f"{name}.safetensors")


def next_message(model, outer):
    train(model, 2)
    return {
        name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in outer.encode().items()
    }


def new_ddp():
    return hooked("topk(0.1) | qsgd(8)", new_model())


def backward(model, seed):
    model.zero_grad()
    loss = sum((p * numbers(p.shape, seed + number)).sum() for number, p in enumerate(model.parameters()))
    (loss + 0 * model(torch.zeros(1, 20)).sum()).backward()


def residuals(model, state):
    backward(model, 2)
    return {key: tensor for key, tensor in state.state_dict().items() if tensor.is_floating_point()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    assert [key for key in expected if not torch.equal(found[key], expected[key])] == []


def test_an_outer_step_continues_from_a_golden_state():
    state, after = split("outer")
    model, outer = new_outer()
    outer.load_state_dict(state)
    assert_same(next_message(model, outer), after)


def test_a_hook_continues_from_a_golden_state():
    state, after = split("ddp")
    with one_rank():
        model, hook = new_ddp()
        hook.load_state_dict(state)
        assert_same(residuals(model, hook), after)


def write_outer():
    model, outer = new_outer()
    for seed in range(2):
        train(model, seed)
        outer.apply({"me": outer.encode()})
    saved = outer.state_dict()
    save("outer", saved, next_message(model, outer))


def write_ddp():
    with one_rank():
        model, hook = new_ddp()
        for seed in range(2):
            backward(model, seed)
        saved = hook.state_dict()
        save("ddp", saved, residuals(model, hook))


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, write in (("outer", write_outer), ("ddp", write_ddp)):
        if not (GOLDEN / f"{name}.safetensors").exists():
            write()
