"""Tests that read-only arrays enter the runtime without a copy, and that others are copied."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import kernels, ops
from fedplug.tff.runtime.graphs.shared_memory import tensor_of

SIZE = 300_000  # from 64 KiB on, `kernels.empty` aligns arrays as TensorFlow requires


def read_only(values, dtype=np.float32):
    array = kernels.empty(np.shape(values), np.dtype(dtype))
    array[...] = values
    array.flags.writeable = False
    return array


def share(tensor, array):
    return np.shares_memory(np.asarray(tensor), array)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, tf.bfloat16.as_numpy_dtype])
def test_read_only_memory_is_shared(dtype):
    array = read_only((np.arange(SIZE) % 100).reshape(-1, 5), dtype)
    tensor = tensor_of(array)
    assert share(tensor, array)
    assert (tensor.dtype, tensor.shape) == (tf.as_dtype(dtype), array.shape)
    np.testing.assert_array_equal(tensor, array)


def test_writable_memory_is_copied():
    array = np.ones(100, np.float32)
    view = array[:]
    view.flags.writeable = False
    tensors = [tensor_of(array), tensor_of(view)]
    array[:] = 2
    for tensor in tensors:
        np.testing.assert_array_equal(tensor, np.ones(100))


def test_unaligned_arrays_are_read():
    data = bytes(3) + np.arange(100, dtype=np.float32).tobytes()
    np.testing.assert_array_equal(tensor_of(np.frombuffer(data, np.float32, offset=3)), np.arange(100))


def test_no_op_writes_its_result_over_it():
    residual = read_only(np.ones(SIZE))
    chosen = ops.topk_residual(tf.zeros(SIZE), tensor_of(residual), 10)
    assert not share(chosen.residual, residual)
    np.testing.assert_array_equal(residual, np.ones(SIZE))
    np.testing.assert_array_equal(tf.function(lambda x: x + 1)(tensor_of(residual)), np.full(SIZE, 2))
    np.testing.assert_array_equal(residual, np.ones(SIZE))


def test_a_tensor_keeps_the_memory_it_lies_in():
    tensor = tensor_of(read_only(np.ones(SIZE)))
    for _ in range(3):
        kernels.empty((SIZE,), np.dtype(np.float32))[...] = 5
    np.testing.assert_array_equal(tensor, np.ones(SIZE))
