"""Python numbers beside arrays: they get the dtype of the array, as in TensorFlow, and never make float64."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops
from fedplug.errors import ArgumentError, DTypeError

BESIDE = {
    "where, x": lambda x: ops.where(x > 0, x, 0.5),
    "where, y": lambda x: ops.where(x > 0, 0.5, x),
    "multiply": lambda x: ops.multiply(x, 0.1),
    "minimum": lambda x: ops.minimum(x, 0.1),
    "maximum": lambda x: ops.maximum(0.1, x),
    "clip": lambda x: ops.clip(x, -0.1, 0.1),
    "divide_no_nan": lambda x: ops.divide_no_nan(x, 0.1),
    "divide_no_nan of a number": lambda x: ops.divide_no_nan(0.1, x),
    "asarray": lambda x: ops.asarray(0.1, like=x),
}
ALONE = {
    "where": lambda: ops.where(np.array([True, False]), 1.0, 0.1),
    "minimum": lambda: ops.minimum(1.0, 0.1),
    "multiply": lambda: ops.multiply(0.5, 0.1),
    "clip": lambda: ops.clip(0.5, 0.1, 0.2),
    "sqrt": lambda: ops.sqrt(2.0),
    "floor": lambda: ops.floor(2.5),
    "round": lambda: ops.round(2.5),
    "stack": lambda: ops.stack([0.5, 0.1]),
}


@pytest.mark.parametrize("shape", [(3,), ()], ids=["vector", "scalar"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", BESIDE)
def test_a_number_gets_the_dtype_of_the_array_and_the_bits_of_tensorflow(name, dtype, shape):
    x = np.linspace(-1, 1, 3, dtype=dtype)[: 3 if shape else 1].reshape(shape)
    found, want = BESIDE[name](x), BESIDE[name](tf.constant(x))
    assert (found.dtype, found.shape) == (np.dtype(dtype), want.shape)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", ALONE)
def test_floats_without_an_array_become_float32(name):
    assert ALONE[name]().dtype == np.float32


def test_a_number_that_the_dtype_lacks_is_refused():
    whole = np.int32([1, 2])
    for call in (
        lambda: ops.where(whole > 1, whole, 0.5),
        lambda: ops.maximum(whole, 0.5),
        lambda: ops.asarray(0.5, like=whole),
        lambda: ops.asarray(np.float32([0.5]), like=whole),
    ):
        with pytest.raises(DTypeError):
            call()
    with pytest.raises(ArgumentError, match="from -2147483648 to 2147483647"):
        ops.minimum(whole, 2**40)
    with pytest.raises(ArgumentError, match="from 0 to 255"):
        ops.asarray(300, like=np.uint8([1]))
