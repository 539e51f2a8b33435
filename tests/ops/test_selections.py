"""The op for top-k within chunks gives the bits of its reference."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops


@pytest.fixture(scope="session")
def dtype(wide_dtype):
    return wide_dtype


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(0, 300),
    k=st.sampled_from([-1, 0, 1, 5, 70]),
    chunk=st.sampled_from([1, 8, 64, 299, 1000]),
    decay=st.sampled_from([0.0, 0.5, 0.95, 1.0, 1.5]),
    bad=st.sampled_from([0, np.nan, np.inf]),
)
def test_op_and_reference_give_the_same_bits(agree, as_dtype, seed, size, k, chunk, decay, bad):
    random = np.random.default_rng(seed)
    delta, residual, decay = as_dtype(*random.integers(-3, 4, (2, size)) / 2, np.float64(decay))
    delta[:1] += delta.dtype.type(bad)
    agree(ops.chunked_topk_residual, delta, residual, k, chunk=chunk, decay=decay)


def test_a_matrix_keeps_its_shape_and_a_short_last_chunk_sends_all_it_has(lowering, dtype):
    delta = tf.constant([[3, -1, 2], [0, -4, 1], [9, 0, 5]], dtype)
    residual = tf.constant([[0, 8, 0], [0, 0, 0], [0, 0, 0]], dtype)
    got = ops.chunked_topk_residual(delta, residual, 2, chunk=4, decay=0.5, lowering=lowering)
    assert got.values.numpy().tolist() == [3, 3, -4, 9, 5]
    assert got.indices.numpy().tolist() == [0, 1, 4, 6, 8]
    assert got.residual.numpy().tolist() == [[0, 0, 2], [0, 0, 1], [0, 0, 0]]


def test_a_denormal_is_an_entry_like_any_other(as_dtype, denormal):
    delta, residual, one = as_dtype(np.array([denormal, 0]), np.zeros(2), np.float64(1))
    got = ops.chunked_topk_residual(delta, residual, 1, chunk=2, decay=one, lowering="fused")
    assert got.indices.numpy().tolist() == [0]


def test_arguments_of_the_wrong_kind_are_refused_while_building(lowering):
    for error, message, delta, residual, chunk in [
        (TypeError, "delta must be float32 or float64", [1], [1], 2),
        (ValueError, "must be equal", [1.0], [1.0, 2.0], 2),
        (ValueError, "chunk is 0", [1.0], [1.0], 0),
    ]:
        with pytest.raises(error, match=message):
            ops.chunked_topk_residual(delta, residual, 1, chunk=chunk, decay=1.0, lowering=lowering)


def test_it_works_in_a_graph_with_shapes_known_only_when_run(lowering):
    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)], autograph=False)
    def split(delta, residual):
        return ops.chunked_topk_residual(delta, residual, 1, chunk=2, decay=1.0, lowering=lowering)

    assert split(tf.constant([[2.0], [0.5]]), tf.zeros([2, 1])).residual.numpy().tolist() == [[0], [0.5]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        split(tf.zeros([2, 2]), tf.zeros([4]))
