"""Receivers of tensors hold the bits of the sender's."""

from __future__ import annotations

import fedplug_torch
import pytest
import torch

from fedplug.errors import ArgumentError, PayloadError

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
DTYPES += [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]


def tensors(dtype=torch.bfloat16, step=0):
    generator = torch.Generator().manual_seed(0)
    kernel = torch.randn((64, 40), generator=generator) + 1e-3 * step
    return {"kernel": kernel.to(dtype), "scalar": torch.tensor(step), "empty": torch.zeros(0, 3)}


def assert_same_bits(received, expected):
    assert list(received) == list(expected)
    for name, tensor in expected.items():
        assert received[name].dtype == tensor.dtype
        assert received[name].tolist() == tensor.tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lossless_versions_are_the_tensors(dtype):
    server, receiver = fedplug_torch.Broadcaster("lossless"), fedplug_torch.Receiver()
    for step in range(3):
        version = server.publish(tensors(dtype, step))
        assert_same_bits(receiver.apply(server.message(receiver.version)), tensors(dtype, step))
        assert receiver.version == server.version == version
    assert len(server.message(version)) == 47


def test_writing_to_received_tensors_changes_no_later_version():
    server, receiver = fedplug_torch.Broadcaster("lossless"), fedplug_torch.Receiver()
    for step in range(2):
        server.publish(tensors(step=step))
        received = receiver.apply(server.message(receiver.version))
        assert_same_bits(received, tensors(step=step))
        received["kernel"].zero_()
        server.model["kernel"].zero_()


def test_a_module_stands_for_its_parameters_in_any_layout():
    module = torch.nn.Conv2d(3, 40, 5).to(memory_format=torch.channels_last)
    server, receiver = fedplug_torch.Broadcaster("lossless"), fedplug_torch.Receiver()
    server.publish(module)
    other = torch.nn.Conv2d(3, 40, 5)
    other.load_state_dict(receiver.apply(server.message()))
    assert_same_bits(other.state_dict(), module.state_dict())


def test_errors_name_the_tensor():
    server = fedplug_torch.Broadcaster()
    with pytest.raises(ArgumentError, match="'x'"):
        server.publish({"x": torch.ones(3).to_sparse()})
    with pytest.raises(ArgumentError, match="named_parameters"):
        server.publish([torch.ones(3)])
    server.publish({"x": torch.ones(300)})
    with pytest.raises(PayloadError, match="max_bytes"):
        fedplug_torch.Receiver(max_bytes=1000).apply(server.message())
