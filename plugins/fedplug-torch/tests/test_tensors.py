"""Tensors are encoded and decoded without a copy where possible."""

from __future__ import annotations

import fedplug_torch
import numpy as np
import pytest
import torch
from fedplug_torch.tensors import as_array, as_tensor

import fedplug
from fedplug.errors import ArgumentError, NonFiniteError, PayloadError, StateError

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
OTHERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.bool]


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# Memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS + OTHERS, ids=str)
@pytest.mark.parametrize("shape", [(5, 3), (7,), (), (0, 2)], ids=str)
def test_array_and_tensor_are_the_same_memory_both_ways(dtype, shape):
    tensor = (10 * numbers(*shape)).to(dtype)
    array = as_array(tensor)
    back = as_tensor(array)
    assert array.shape == shape
    assert array.ctypes.data == tensor.data_ptr() == back.data_ptr() or tensor.numel() == 0
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


def test_autograd_knows_that_a_tensor_was_decoded_into():
    weight = torch.ones(100, requires_grad=True)
    middle = weight * 2
    loss = middle.square().sum()
    payload, _ = fedplug_torch.encode(torch.zeros(100), "identity")
    fedplug_torch.decode(payload, out=middle)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Supported tensors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_bytes_are_those_of_the_codec_for_arrays(dtype):
    tensor = numbers(1000, dtype=dtype)
    ours, state = fedplug_torch.Codec("topk(0.05) | qsgd(4)").encode(tensor)
    theirs, _ = fedplug.codec("topk(0.05) | qsgd(4)").encode(as_array(tensor))
    assert ours == theirs
    assert state["residual"].dtype == torch.promote_types(dtype, torch.float32)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda t: t.T, id="transposed"),
        pytest.param(lambda t: t[:, ::2], id="with steps"),
        pytest.param(lambda t: t[0].expand(30, 40), id="expanded"),
        pytest.param(lambda t: t.requires_grad_() * 2, id="of a graph"),
        pytest.param(lambda t: torch.view_as_complex(t.reshape(30, 20, 2)).conj().imag, id="negative"),
        pytest.param(lambda t: torch.nn.Parameter(t), id="a parameter"),
    ],
)
def test_any_view_may_be_encoded_and_be_decoded_into(view):
    tensor = view(numbers(30, 40))
    payload, _ = fedplug_torch.encode(tensor, "identity")
    assert torch.equal(fedplug_torch.decode(payload), tensor)
    if tensor.stride(0):
        out = view(numbers(30, 40, seed=1))
        assert fedplug_torch.decode(payload, out=out) is out
        assert torch.equal(out, tensor)


def test_tensors_of_inference_mode_are_tensors():
    with torch.inference_mode():
        tensor = numbers(100)
        payload, _ = fedplug_torch.encode(tensor, "identity")
        out = torch.zeros(100)
    assert torch.equal(fedplug_torch.decode(payload, out=out), tensor)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(3), "no tensor"),
        (torch.zeros(3).to_sparse(), "to_dense"),
        (torch.zeros(3, device="meta"), "meta device"),
        (torch.zeros(3, dtype=torch.complex64), "complex64 cannot be encoded"),
        (torch.zeros(3, dtype=torch.float8_e5m2), "float8_e5m2 cannot be encoded"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tensors_that_cannot_be_encoded_are_refused(value, words):
    with pytest.raises(ArgumentError, match=words):
        fedplug_torch.encode(value, "identity")
    with pytest.raises(ArgumentError, match=f"tensor 'x'.*{words}"):
        fedplug_torch.Codec("identity").encode_model({"x": value})


@pytest.mark.parametrize(
    "out",
    [torch.zeros(99), torch.zeros(100, dtype=torch.float64), np.zeros(100)],
    ids=["shape", "dtype", "library"],
)
def test_values_that_do_not_fit_are_not_written(out):
    payload, _ = fedplug_torch.encode(numbers(100), "identity")
    with pytest.raises(ArgumentError):
        fedplug_torch.decode(payload, out=out)
    assert not out.any()


# Models and states -----------------------------------------------------------------------------------------


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20), torch.nn.Linear(20, 5))


@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param(lambda m: m, id="a module"),
        pytest.param(lambda m: m.named_parameters(), id="named parameters"),
        pytest.param(lambda m: m.state_dict(), id="a state dictionary"),
    ],
)
def test_a_model_is_sent_and_read_into_another(tensors):
    sender, receiver = model(), model()
    with torch.no_grad():
        for parameter in sender.parameters():
            parameter.add_(1)
    payloads, _ = fedplug_torch.Codec("identity").encode_model(tensors(sender))
    read = fedplug_torch.decode_model(payloads, out=receiver)
    for name, parameter in receiver.named_parameters():
        assert read[name] is parameter
        assert torch.equal(parameter, dict(sender.named_parameters())[name])


def test_a_model_with_a_damaged_payload_or_a_place_that_does_not_fit_is_not_written():
    payloads, _ = fedplug_torch.Codec("identity").encode_model({"a": numbers(100), "b": numbers(100)})
    places = {"a": torch.zeros(100), "b": torch.zeros(100)}
    with pytest.raises(PayloadError, match="tensor 'b': the checksum"):
        fedplug_torch.decode_model({**payloads, "b": payloads["b"][:-1] + b"x"}, out=places)
    with pytest.raises(ArgumentError, match="tensor 'b': out is"):
        fedplug_torch.decode_model(payloads, out={**places, "b": torch.zeros(99)})
    assert not any(place.any() for place in places.values())


def test_errors_are_those_of_fedplug_and_name_the_tensor():
    codec = fedplug_torch.Codec("topk(0.05)")
    bad = numbers(100)
    bad[3] = float("nan")
    with pytest.raises(NonFiniteError, match="'x'"):
        codec.encode_model({"x": bad})
    _, state = codec.encode(numbers(100))
    with pytest.raises(StateError, match="another codec"):
        fedplug_torch.Codec("topk(0.06)").encode(numbers(100), state)
    payloads, _ = codec.encode_model({"x": numbers(100)})
    with pytest.raises(PayloadError, match="tensor 'x'"):
        fedplug_torch.decode_model({"x": payloads["x"][:-1]})
    with pytest.raises(PayloadError, match="max_bytes"):
        fedplug_torch.decode_model(payloads, max_bytes=399)


def test_a_payload_may_be_a_tensor_of_bytes():
    payload, _ = fedplug_torch.encode(numbers(100), "identity")
    received = fedplug_torch.decode(torch.frombuffer(bytearray(payload), dtype=torch.uint8))
    assert torch.equal(received, numbers(100))


# Invalid models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.Linear(2, 9).parameters(),
        list(torch.nn.Linear(2, 9).parameters()),
        torch.ones(2, 2),
        "model",
        3,
        None,
        {0: torch.ones(3)},
        [(0, torch.ones(3))],
        [()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_clear_error_refuses_anything_but_a_model(model):
    codec = fedplug_torch.Codec("topk(0.1)")
    with pytest.raises(
        ArgumentError, match=r"pass the module, its named_parameters\(\) \(not its parameters"
    ):
        codec.encode_model(model)


def test_scalars_of_torch_are_numbers():
    codec = fedplug_torch.Codec("topk", count=torch.tensor(3), min_size=torch.tensor(4))
    model = {"w": numbers(20, 9)}
    payloads, _ = codec.encode_model(model, round_num=torch.tensor(1))
    same, _ = fedplug_torch.Codec("topk(count=3)", min_size=4).encode_model(model, None, 1)
    assert payloads == same
    total = fedplug.ModelSum.like(model)
    for weight in (torch.tensor(2), torch.tensor(0.5), torch.tensor(1.5, requires_grad=True)):
        total.add(payloads, weight)
    assert total.weight == 4.0


def test_invalid_states_and_duplicate_names_are_refused():
    codec, x = fedplug_torch.Codec("topk(0.1)"), torch.ones(100)
    with pytest.raises(StateError, match="a state is a dictionary of arrays, not a str"):
        codec.encode_model({"a": x}, "state")
    with pytest.raises(ArgumentError, match="several tensors have one name; of 2, 1 names differ"):
        codec.encode_model([("a", x), ("a", 2 * x)])
