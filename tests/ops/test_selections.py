"""The ops for top-k within chunks and for a threshold give the bits of their references."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops

SELECTIONS = {
    "chunks": functools.partial(ops.chunked_topk_residual, k=1, chunk=2, decay=1),
    "threshold": functools.partial(ops.threshold_residual, threshold=1),
}
selections = pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS.keys())


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
    threshold=st.sampled_from([-1, 0, 0.5, 1, 2, 1e9, np.nan]),
    bad=st.sampled_from([0, np.nan, np.inf]),
)
def test_op_and_reference_give_the_same_bits(agree, as_dtype, seed, size, k, chunk, decay, threshold, bad):
    random = np.random.default_rng(seed)
    delta, residual, decay, threshold = as_dtype(
        *random.integers(-3, 4, (2, size)) / 2, np.float64(decay), np.float64(threshold)
    )
    delta[:1] += delta.dtype.type(bad)
    agree(ops.chunked_topk_residual, delta, residual, k, chunk=chunk, decay=decay)
    agree(ops.threshold_residual, delta, residual, threshold)


def test_a_matrix_keeps_its_shape_and_a_short_last_chunk_sends_all_it_has(lowering, dtype):
    delta = tf.constant([[3, -1, 2], [0, -4, 1], [9, 0, 5]], dtype)
    residual = tf.constant([[0, 8, 0], [0, 0, 0], [0, 0, 0]], dtype)
    got = ops.chunked_topk_residual(delta, residual, 2, chunk=4, decay=0.5, lowering=lowering)
    assert got.values.numpy().tolist() == [3, 3, -4, 9, 5]
    assert got.indices.numpy().tolist() == [0, 1, 4, 6, 8]
    assert got.residual.numpy().tolist() == [[0, 0, 2], [0, 0, 1], [0, 0, 0]]


def test_a_matrix_keeps_its_shape_and_its_entries_are_those_that_reach(lowering, dtype):
    delta = tf.constant([[3, -1], [0, -4]], dtype)
    got = ops.threshold_residual(delta, tf.ones_like(delta), 3, lowering=lowering)
    assert got.values.numpy().tolist() == [4, -3]
    assert got.indices.numpy().tolist() == [0, 3]
    assert got.residual.numpy().tolist() == [[0, 0], [1, 0]]


def test_a_denormal_is_an_entry_like_any_other(as_dtype, denormal):
    delta, residual, zero, one = as_dtype(np.array([denormal, 0]), np.zeros(2), np.float64(0), np.float64(1))
    for got in (
        ops.chunked_topk_residual(delta, residual, 1, chunk=2, decay=one, lowering="fused"),
        ops.threshold_residual(delta, residual, zero, lowering="fused"),
    ):
        assert got.indices.numpy().tolist() == [0]


@selections
def test_arguments_of_the_wrong_kind_are_refused_while_building(lowering, select):
    with pytest.raises(TypeError, match="delta must be float32 or float64"):
        select([1], [1], lowering=lowering)
    with pytest.raises(ValueError, match="must be equal"):
        select([1.0], [1.0, 2.0], lowering=lowering)
    with pytest.raises(ValueError, match="chunk is 0"):
        ops.chunked_topk_residual([1.0], [1.0], 1, chunk=0, decay=1.0, lowering=lowering)


@selections
def test_it_works_in_a_graph_with_shapes_known_only_when_run(lowering, select):
    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)], autograph=False)
    def split(delta, residual):
        return select(delta, residual, lowering=lowering)

    assert split(tf.constant([[2.0], [0.5]]), tf.zeros([2, 1])).residual.numpy().tolist() == [[0], [0.5]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        split(tf.zeros([2, 2]), tf.zeros([4]))
