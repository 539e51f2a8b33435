"""Global settings of torch change no result, and reading a tensor changes nothing of it."""

from __future__ import annotations

import contextlib

import fedplug_torch
import pytest
import torch
from digits import hooked
from fedplug_torch import FixedSize, OuterStep

CPU = torch.device("cpu")


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


SETTINGS = {
    "default device": lambda: torch.device("meta"),
    "default dtype": lambda: default_dtype(torch.float64),
    "inference mode": torch.inference_mode,
    "deterministic": deterministic,
}


def update():
    generator = torch.Generator(CPU).manual_seed(0)
    return {"w": torch.randn(30, 40, generator=generator, device=CPU, dtype=torch.float32)}


def the_codec():
    codec = fedplug_torch.Codec("topk(0.1) | qsgd(8)")
    payloads, state = codec.encode_model(update())
    payloads, state = codec.encode_model(update(), state, 1)
    out = torch.empty(40, 30, device=CPU, dtype=torch.float32).T
    assert fedplug_torch.decode(payloads["w"], out=out) is out
    return {**state, **fedplug_torch.decode_model(payloads), "out": out.clone()}


def the_broadcaster():
    server, receiver = fedplug_torch.Broadcaster("bfp(5) | rans"), fedplug_torch.Receiver()
    server.publish(update())
    return receiver.apply(server.message())


def outer_steps():
    with torch.inference_mode(False):
        model = torch.nn.Linear(40, 30, device=CPU, dtype=torch.float32)
        model.weight.data.copy_(update()["w"])
        model.bias.data.zero_()
    outer = OuterStep(model, "topk(0.1)", inner_steps=1)
    for _ in range(2):
        model.weight.data.sub_(update()["w"])
        outer.apply({"me": outer.encode()})
    saved = outer.state_dict()
    outer.load_state_dict(saved)
    return outer.state_dict()


def payloads_of_a_fixed_size():
    mean, x = FixedSize("topk(count=64, chunk=4096) | codebook(2) | offsets(4096)"), update()["w"]
    sent = mean.encode(x, mean.zeros(x))
    refused = mean.encode(x * float("nan"), mean.zeros(x))
    return {**sent._asdict(), "mean": mean.mean(sent.payload[None], x), "count": refused.non_finite}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("use", [the_codec, the_broadcaster, outer_steps, payloads_of_a_fixed_size])
def test_settings_change_no_bit(setting, use):
    expected = use()
    with setting():
        found = use()
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].device == CPU, name
        assert found[name].dtype == expected[name].dtype, name
        assert torch.equal(found[name], expected[name]), name


@pytest.mark.parametrize("name", ["default device", "default dtype", "deterministic"])
def test_settings_change_no_bit_of_the_hook(name, one_rank):
    def gradients():
        model = torch.nn.Linear(40, 30, device=CPU, dtype=torch.float32)
        ddp, state = hooked("topk(0.1)", model)
        ddp(update()["w"]).sum().backward()
        state.load_state_dict(state.state_dict())
        return [model.weight.grad, state.state_dict()["codec/weight/residual"]]

    expected = gradients()
    with SETTINGS[name]():
        found = gradients()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


READS = {
    "Codec.encode": lambda x: fedplug_torch.Codec("identity").encode(x),
    "a state": lambda x: fedplug_torch.Codec("topk(0.1)").encode(
        torch.ones(100), {**fedplug_torch.Codec("topk(0.1)").encode(torch.ones(100))[1], "residual": x}
    ),
    "Broadcaster.publish": lambda x: fedplug_torch.Broadcaster("lossless").publish({"w": x}),
    "decode(out=)": lambda x: fedplug_torch.decode(
        fedplug_torch.encode(torch.ones(100), "identity")[0], out=x
    ),
    "OuterStep": lambda x: OuterStep([("w", x.requires_grad_())], "identity", inner_steps=1).encode(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_tensor_that_was_read_can_be_resized(read):
    tensor = torch.zeros(100)
    read(tensor)
    tensor.detach().resize_(200)
