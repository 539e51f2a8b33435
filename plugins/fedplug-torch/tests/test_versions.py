"""Receivers of tensors hold the bits of the sender's, also over a socket and after a kill."""

from __future__ import annotations

import re
import subprocess
import sys
import threading

import fedplug_torch
import pytest
import stream_weights
import torch

import fedplug
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


def test_messages_are_those_of_numpy_arrays():
    server, arrays = fedplug_torch.Broadcaster("auto"), fedplug.Broadcaster("auto")
    server.publish({"kernel": torch.ones(100, 9)})
    arrays.publish({"kernel": torch.ones(100, 9).numpy()})
    assert server.message() == arrays.message()


def test_errors_name_the_tensor():
    server = fedplug_torch.Broadcaster()
    with pytest.raises(ArgumentError, match="'x'"):
        server.publish({"x": torch.ones(3).to_sparse()})
    with pytest.raises(ArgumentError, match="named_parameters"):
        server.publish([torch.ones(3)])
    server.publish({"x": torch.ones(300)})
    with pytest.raises(PayloadError, match="max_bytes"):
        fedplug_torch.Receiver(max_bytes=1000).apply(server.message())


# The example -----------------------------------------------------------------------------------------------


def test_two_serving_processes_one_of_them_killed_end_with_the_trainers_bits():
    done = subprocess.run(
        [sys.executable, stream_weights.__file__], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the second serving process is killed" in done.stdout
    assert re.search(r"started again, the second one begins with version [0-9a-f]{16}\n", done.stdout)
    found = re.search(r"(\d+) messages took ([\d,]+) bytes instead of ([\d,]+)\n", done.stdout)
    messages, sent, plain = (int(number.replace(",", "")) for number in found.groups())
    # The first message to each process is a whole model; a busy process skips some versions.
    assert sent < (2 + (messages - 2) / 10) * plain / messages
    assert done.stdout.endswith("both serving processes hold the trainer's bits\n")


def test_a_request_with_a_foreign_version_gets_the_whole_weights(monkeypatch):
    with stream_weights.Weights() as trainer:
        threading.Thread(target=trainer.serve_forever, daemon=True).start()
        version = trainer.versions.publish(stream_weights.new_model().state_dict())
        port = trainer.server_address[1]
        for other in (None, "hostile", version[::-1]):
            assert stream_weights.receive(port, other) == trainer.versions.message()
        monkeypatch.setattr(stream_weights, "MAX_BYTES", 1000)
        with pytest.raises(ValueError, match="more than 1000 bytes"):
            stream_weights.receive(port, None)
        trainer.shutdown()
