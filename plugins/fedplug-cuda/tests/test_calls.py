"""How often a round waits for the device, copies and launches, as the fake device counts it."""

import ctypes

import numpy as np
import pytest
from fedplug_cuda.library import library

import fedplug

OPERATIONS = ["set", "copy", "launch", "wait", "ask"]
"""Operation of csrc/tests/fake_cuda/device.h, in its order."""


@pytest.fixture
def count(device):
    try:
        calls = library().fedplug_fake_cuda_calls
    except AttributeError:
        pytest.skip("a real device counts nothing")
    calls.argtypes, calls.restype = [ctypes.c_int], ctypes.c_int

    def counted(work):
        before = [calls(number) for number in range(len(OPERATIONS))]
        work()
        after = [calls(number) for number in range(len(OPERATIONS))]
        return {name: b - a for name, a, b in zip(OPERATIONS, before, after, strict=True)}

    return counted


@pytest.mark.parametrize(
    ("expression", "copies"),
    [("topk(0.05)", 1), ("topk(0.05, scope='model')", 1), ("topk(0.05, scope='model') | qsgd(8)", 2)],
)
def test_a_list_is_copied_and_waited_for_as_often_as_one_tensor(device, count, expression, copies):
    codec = fedplug.codec(expression)
    rng = np.random.default_rng(0)
    for tensors in (1, 12):
        update = {f"layer{i}": device.put(rng.standard_normal((8, 100), np.float32)) for i in range(tensors)}
        _, state = codec.encode_model(update)
        found = count(lambda update=update, state=state: codec.encode_model(update, state, 1))
        assert (found["copy"], found["wait"]) == (copies, copies)
        assert found["launch"] + found["set"] <= 8
