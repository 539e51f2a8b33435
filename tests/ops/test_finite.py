"""Checks for NaN and infinity, of tensors and untrusted bytes: the op and its reference against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops
from fedplug.errors import NonFiniteError
from fedplug.ops.lowering import use_lowering

BAD = [float("nan"), float("inf"), float("-inf")]


@pytest.fixture(autouse=True)
def use(lowering):
    with use_lowering(lowering):
        yield


def values(size, dtype):
    return tf.cast(np.random.default_rng(size).normal(size=size), dtype)


@pytest.mark.parametrize("size", [1, 5, 700_001])
def test_one_value_that_is_no_number_is_found_wherever_it_is(size, dtype):
    x = values(size, dtype)
    assert ops.all_finite(x)
    for place, bad in zip((0, size // 2, size - 1), BAD, strict=True):
        assert not ops.all_finite(tf.tensor_scatter_nd_update(x, [[place]], tf.cast([bad], dtype)))


def test_tensors_of_several_dtypes_and_shapes_are_looked_at_together(dtype):
    good = [
        tf.zeros([], tf.float32),
        tf.zeros([0], tf.float16),
        tf.ones([2, 3], dtype),
        tf.ones([4], tf.float64),
    ]
    assert bool(ops.all_finite(good))
    for place in (0, 2, 3):
        bad = [tf.fill(x.shape, tf.cast(np.nan, x.dtype)) if i == place else x for i, x in enumerate(good)]
        assert not bool(ops.all_finite(bad))


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_bytes_come_back_as_the_values_they_were(size, dtype):
    x = values(size, dtype)
    read = ops.finite_from_bytes(ops.to_bytes(x), size, dtype)
    assert read.dtype == dtype
    assert read.shape == [size]
    assert read.numpy().tobytes() == x.numpy().tobytes()


def test_bytes_in_the_middle_of_others_come_back_too(dtype):
    x = values(1000, dtype)
    data = tf.concat([tf.zeros([13], tf.uint8), ops.to_bytes(x)], 0)
    read = tf.function(lambda data: ops.finite_from_bytes(data[13:], 1000, dtype), autograph=False)(data)
    assert read.numpy().tobytes() == x.numpy().tobytes()


def test_bytes_without_numbers_are_refused(dtype):
    for bad in BAD:
        data = ops.to_bytes(tf.cast([1.0, bad, 2.0], dtype))
        with pytest.raises(tf.errors.InvalidArgumentError, match="a raw value is NaN or infinite"):
            ops.finite_from_bytes(data, 3, dtype)


def test_another_number_of_values_is_refused(dtype):
    for size, count in [(0, 1), (2, 3), (3.5, 3), (4, 3), (3, -1), (3, 2**40)]:
        data = tf.zeros([int(size * dtype.size)], tf.uint8)
        with pytest.raises(tf.errors.InvalidArgumentError, match="bytes of raw values have the wrong length"):
            ops.finite_from_bytes(data, count, dtype)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_a_non_finite_array_is_refused_by_name(shape, bad):
    good = np.ones(shape, np.float32)[()]
    assert ops.all_finite(good)
    assert ops.all_finite(np.ones(0, np.float32))
    assert ops.require_finite(good, "the scale") is good
    x = np.full(shape, bad, np.float32)[()]
    assert not ops.all_finite(x)
    with pytest.raises(NonFiniteError, match="the scale holds a NaN or an infinity"):
        ops.require_finite(x, "the scale")
