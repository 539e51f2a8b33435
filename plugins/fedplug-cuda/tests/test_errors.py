"""Tests that an error names the refused work of a device, and that states are unchanged."""

import dataclasses
import re

import fedplug_cuda
import numpy as np
import pytest
from fedplug_cuda import DeviceError, grouped_topk_residual

import fedplug
from fedplug.ops.device_array import is_on_device, on_host

EXPRESSIONS = [
    "topk(0.05, decay=0.5) | qsgd(8)",
    "topk(count=3, chunk=64) | qsgd(8)",
    "randomk(0.05, error_feedback=True)",
]


def update(device, seed):
    rng = np.random.default_rng(seed)
    return {name: device.put(rng.standard_normal(300).astype(np.float32)) for name in ("a", "b")}


def bits(state):
    return {key: on_host(array).tobytes() for key, array in state.items()}


@pytest.mark.parametrize("operation", ["allocate", "launch"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_encode_that_the_device_refuses_anywhere_leaves_the_state_unchanged(
    device, fake, expression, operation
):
    codec = fedplug.codec(expression)
    _, state = codec.encode_model(update(device, 0))
    before = bits(state)
    arrays, expected = update(device, 1), codec.encode_model(update(device, 1), state, 1)[0]
    for at in range(100):
        try:
            with fake.failing(operation, at):
                payloads, _ = codec.encode_model(arrays, state, 1)
            break
        except DeviceError:
            assert bits(state) == before
    assert at > 0
    assert payloads == expected


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.usefixtures("fake")  # a machine with one device cannot multiply on the second
def test_an_array_on_another_device_than_its_state_is_refused(device, expression):
    codec = fedplug.codec(expression)
    _, state = codec.encode_model(update(device, 0))
    elsewhere = {
        key: dataclasses.replace(array, device=1) if is_on_device(array) else array
        for key, array in state.items()
    }
    with pytest.raises(DeviceError, match="on the CUDA devices 0, 1; move the deltas and residuals"):
        codec.encode_model(update(device, 1), elsewhere, 1)


def test_an_invalid_stream_is_refused_and_nothing_is_written(device, fake):
    x, residual = (device.put(np.ones(300, np.float32)) for _ in range(2))
    with pytest.raises(DeviceError, match="cudaErrorInvalidResourceHandle"):
        grouped_topk_residual([x], [residual], 5, residuals_out=[residual], stream=12345)
    assert (on_host(residual) == 1).all()


@pytest.mark.parametrize(
    ("error", "message"),
    [("no device", "cudaErrorNoDevice"), ("old driver", "cudaErrorInsufficientDriver.*check the driver")],
)
def test_a_missing_device_or_an_old_driver_is_an_error_that_names_the_fault(fake, error, message):
    with fake.failing("count devices", error=error):
        problem = fedplug_cuda.problem()
    assert re.search(message, problem)
