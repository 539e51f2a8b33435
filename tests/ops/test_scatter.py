"""`fedplug.ops.scatter_decode_add` and `scatter_decode` give the bits of their references.

csrc/tests compares the kernels with a slow loop.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops


@st.composite
def sums(draw):
    """An accumulator, payloads and weights; no number is close to a denormal one."""
    n = draw(st.sampled_from([1, 7, 20]))  # few sizes, as a reference is traced once for each
    number = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1]) | st.integers(-9999, 9999).map(lambda i: i / 77)
    payloads = draw(st.lists(st.sets(st.integers(0, n - 1)).map(sorted), max_size=5))
    indices = [index for payload in payloads for index in payload]
    row_splits = np.cumsum([0] + [len(payload) for payload in payloads])

    def take(count):
        return np.array(draw(st.lists(number, min_size=count, max_size=count)), np.float64)

    return take(n), take(len(indices)), np.array(indices, np.int32), row_splits, take(len(payloads))


@settings(deadline=None)
@given(case=sums(), data=st.data())
def test_op_and_reference_refuse_the_same_payloads_and_agree_on_the_rest(agree, as_dtype, case, data):
    accumulator, values, indices, row_splits, weights = case
    accumulator, values, weights = as_dtype(accumulator, values, weights)
    for vector in (indices, row_splits):
        if vector.size and data.draw(st.booleans()):
            vector[data.draw(st.integers(0, vector.size - 1))] = data.draw(st.integers(-2, 22))
    agree(ops.scatter_decode_add, accumulator, values, indices, row_splits, weights)
    agree(ops.scatter_decode, accumulator.size, values, indices, row_splits, weights)


@pytest.mark.parametrize(("n", "k", "payloads"), [(100_000, 30_000, 4), (300_000, 3_000, 3)])
def test_op_and_reference_agree_where_many_threads_payloads_and_tiles_meet(agree, as_dtype, n, k, payloads):
    rng = np.random.default_rng(11)
    indices = np.concatenate([np.sort(rng.permutation(n)[:k]) for _ in range(payloads)]).astype(np.int32)
    splits = np.arange(payloads + 1) * k
    accumulator, values, weights = as_dtype(*(rng.normal(size=s) for s in (n, indices.size, payloads)))
    agree(ops.scatter_decode_add, accumulator, values, indices, splits, weights)
    agree(ops.scatter_decode, n, values, indices, splits, weights)


def test_no_weights_are_weights_of_one(lowering):
    got = ops.scatter_decode_add(tf.zeros([2, 2]), [1.0, 2.0, 4.0], [0, 3, 3], [0, 2, 3], lowering=lowering)
    assert got.numpy().tolist() == [[1, 0], [0, 6]]


def test_the_op_keeps_denormals_as_numpy_does(as_dtype, denormal):
    (tiny,) = as_dtype(np.full(70_000, denormal))
    everywhere = np.arange(tiny.size, dtype=np.int32)
    got = ops.scatter_decode_add(tiny, tiny, everywhere, [0, tiny.size], lowering="fused")
    assert got.numpy().tobytes() == (tiny + tiny).tobytes()


@pytest.mark.parametrize("indices", [[0, 1, 1, 5], [0, 1, 1, -1], [0, 1, 3, 2], [0, 1, 2, 2]])
def test_a_bad_payload_is_named(lowering, indices):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"payload(.|\n)*\b1\b"):
        ops.scatter_decode_add(tf.zeros(5), tf.ones(4), indices, [0, 2, 4], lowering=lowering)


def dynamic(lowering):
    specs = [tf.TensorSpec(None, d) for d in (tf.float32, tf.float32, tf.int32, tf.int64, tf.float32)]
    specs[1:] = [tf.TensorSpec([None], spec.dtype) for spec in specs[1:]]
    return tf.function(
        lambda *arguments: ops.scatter_decode_add(*arguments, lowering=lowering),
        input_signature=specs,
        autograph=False,
    )


@pytest.mark.parametrize(
    ("values", "indices", "row_splits", "weights"),
    [(3, 2, [0, 2], 1), (2, 3, [0, 2], 1), (2, 2, [0, 2], 2), (2, 2, [0, 1, 2], 1), (0, 0, [], 0)],
)
def test_lengths_that_do_not_fit_are_refused_when_run(lowering, values, indices, row_splits, weights):
    splits = tf.constant(row_splits, tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError):
        dynamic(lowering)(tf.zeros(5), tf.ones(values), tf.range(indices), splits, tf.ones(weights))


def test_static_shapes_that_do_not_fit_are_refused_while_building(lowering):
    with pytest.raises(ValueError, match=r"has shape .* but .* has"):
        ops.scatter_decode_add(tf.zeros(5), tf.ones(2), [0, 1, 2], [0, 2], lowering=lowering)
    with pytest.raises(ValueError, match="must be a vector"):
        ops.scatter_decode_add(tf.zeros(5), tf.ones([1, 2]), [0, 1], [0, 2], lowering=lowering)


@pytest.mark.parametrize("size", [-1, -(2**63), 2**31, 2**62])
def test_a_sum_of_impossible_size_is_refused_before_anything_is_allocated(lowering, size):
    with pytest.raises(tf.errors.InvalidArgumentError, match="2\\^31"):
        ops.scatter_decode(tf.constant(size, tf.int64), [1.0], [0], [0, 1], lowering=lowering)


def test_a_sum_whose_size_is_known_when_run_is_traced_once(lowering):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
    def decode(size):
        return ops.scatter_decode(size, [1.0, 2.0], [0, 2], [0, 2], lowering=lowering)

    assert decode(3).numpy().tolist() == [1, 0, 2]
    assert decode(5).numpy().tolist() == [1, 0, 2, 0, 0]
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(2)
