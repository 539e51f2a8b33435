"""The ops on a GPU have the bits of the CPU, and its errors. `make gpu-check` runs these tests."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops

pytestmark = pytest.mark.skipif(
    not tf.config.get_visible_devices("GPU"), reason="TensorFlow sees no GPU (make gpu-check runs these)"
)
SIZES = (1, 7, 1_000, 100_003)


def placed(values, device):
    with tf.device("/CPU:0"):
        host = tf.constant(values)
    with tf.device(device):
        return tf.identity(host)


def outcome(op, arguments, device):
    """Everything that `op` returns for `arguments`, or its refusal."""
    with tf.device(device):
        try:
            results = op(*tf.nest.map_structure(lambda array: placed(array, device), arguments))
        except tf.errors.InvalidArgumentError as error:
            # TensorFlow adds the device before the message, and the node and the op behind it.
            return re.split(r"\s*\[\[\{\{node| \[Op:", error.message)[0].rpartition("}} ")[2]
    return [(r.numpy().tobytes(), r.shape.as_list(), r.dtype) for r in tf.nest.flatten(results)]


def assert_same_on_both(op, *arguments):
    assert outcome(op, arguments, "/GPU:0") == outcome(op, arguments, "/CPU:0")


def numbers(rng, n, dtype):
    return rng.normal(size=n).astype(dtype.as_numpy_dtype)


@pytest.mark.parametrize("size", SIZES)
def test_topk_residual(wide_dtype, size):
    rng = np.random.default_rng(size)
    ties = rng.integers(-2, 3, size).astype(wide_dtype.as_numpy_dtype)
    broken = numbers(rng, size, wide_dtype)
    broken[size // 2] = np.nan
    for delta in (numbers(rng, size, wide_dtype), ties, broken):
        for k in (0, 1, size // 3 + 1, size + 5):
            assert_same_on_both(
                lambda d, r, k=k: ops.topk_residual(d, r, k, lowering="fused"),
                delta,
                numbers(rng, size, wide_dtype),
            )


@pytest.mark.parametrize("k", [0, 10, 600, 10**6])
def test_grouped_topk_residual(wide_dtype, k):
    rng = np.random.default_rng(k)
    shapes = ((3, 5), (1000,), (64, 32), (), (0,), (200, 300))
    deltas, residuals = ([numbers(rng, shape, wide_dtype) for shape in shapes] for _ in range(2))
    assert_same_on_both(lambda d, r: ops.grouped_topk_residual(d, r, k, lowering="fused"), deltas, residuals)


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
@pytest.mark.parametrize("wrong", [False, True])
def test_sums_of_payloads(dtype, size, wrong):
    rng = np.random.default_rng(size)
    places = [np.sort(rng.choice(size, max(1, size // 50), replace=False)) for _ in range(4)]
    indices = np.concatenate(places).astype(np.int32)
    splits = np.cumsum([0, *map(len, places)]).astype(np.int64)
    if wrong:
        indices[0] = size + 7
    weights = rng.random(4).astype(dtype.as_numpy_dtype)
    payloads = numbers(rng, indices.size, dtype), indices, splits, weights
    assert_same_on_both(
        lambda *given: ops.scatter_decode_add(*given, lowering="fused"), numbers(rng, size, dtype), *payloads
    )
    assert_same_on_both(lambda *given: ops.scatter_decode(size, *given, lowering="fused"), *payloads)
