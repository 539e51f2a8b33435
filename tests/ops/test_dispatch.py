"""The choice of the function that runs an op, and the names that `fedplug.ops` exports."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops
from fedplug.errors import CapabilityError
from fedplug.ops.device_array import DeviceArray

DISPATCHED = {name: op for name in ops.__all__ if hasattr(op := getattr(ops, name), "tensors")}
# These compute with what dispatched functions and operators return.
COMPOSED = {"block_count", "narrowed", "num_elements", "orthonormal_columns", "packed_size"}


def test_the_package_exports_ops_only():
    assert all(inspect.isfunction(getattr(ops, name)) for name in ops.__all__)
    assert set(ops.__all__) == DISPATCHED.keys() | COMPOSED | {"load_library"}


def test_every_op_names_a_function_for_tensors_with_the_same_parameters():
    for name, op in DISPATCHED.items():
        on_tensors, parameters = op.tensors(), list(inspect.signature(op).parameters)
        taken = list(inspect.signature(on_tensors).parameters)
        if on_tensors.__module__.startswith("fedplug."):
            assert (on_tensors.__name__, taken) == (name, parameters)
        else:  # TensorFlow's own, which gets them by their places
            assert len(taken) >= len(parameters), name


def test_the_type_of_an_argument_or_a_lowering_chooses_the_function():
    ones = np.ones(3, np.float32)
    assert isinstance(ops.sum(ones), np.float32)
    assert tf.is_tensor(ops.sum(tf.constant(ones)))
    assert tf.is_tensor(ops.concat([ones, tf.constant(ones)]))
    assert tf.is_tensor(ops.crc32(np.ones(3, np.uint8), lowering="reference"))


class FewOps:
    """A backend with one op, and no others."""

    def widened(self, x):
        return x, "widened"


class FakeArray(DeviceArray):
    backend = FewOps()


def test_device_arrays_run_the_function_of_their_backend():
    x = FakeArray(None, 0, (3,), np.dtype("f"), 0)
    assert ops.widened(x) == (x, "widened")
    with pytest.raises(CapabilityError, match="sum has no CUDA kernel"):
        ops.sum(x)
