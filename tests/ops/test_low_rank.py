"""The ops for products with thin matrices give the bits of their references."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops
from fedplug.errors import ArgumentError
from fedplug.ops import donation
from fedplug.ops.lowering import use_lowering

# Few sizes, as a reference is traced once for each.
SEEDS, SIZES, RANKS = st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 7, 40]), st.sampled_from([1, 3])


def _arrays(seed, m, n, r, dtype):
    """A matrix, and factors."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype.as_numpy_dtype) for shape in ((m, n), (m, r), (n, r))]


@settings(deadline=None)
@given(seed=SEEDS, m=SIZES, n=SIZES, r=RANKS)
def test_op_and_reference_give_the_same_bits(agree, wide_dtype, seed, m, n, r):
    a, p, q = _arrays(seed, m, n, r, wide_dtype)
    agree(ops.low_rank_matrix, p, q)
    agree(ops.matrix_times, a, q)
    agree(ops.matrix_times, a, p, transposed=True)


@pytest.mark.parametrize("shape", [(900, 300), (5, 20_000), (20_000, 5)])
def test_large_matrices_on_several_threads_have_the_same_bits_in_a_graph(wide_dtype, shape):
    a, p, q = _arrays(0, *shape, 2, wide_dtype)
    results = []
    for lowering in ("fused", "reference"):

        @tf.function(autograph=False)
        def run(a, p, q, lowering=lowering):
            with use_lowering(lowering):
                times, transposed = ops.matrix_times(a, q), ops.matrix_times(a, p, transposed=True)
                return times, transposed, ops.low_rank_matrix(p, q)

        results.append(run(*map(tf.constant, (a, p, q))))
    for fused, reference in zip(*results, strict=True):
        assert fused.numpy().tobytes() == reference.numpy().tobytes()


def test_overflow_becomes_the_largest_number(agree, lowering, wide_dtype):
    p = tf.constant([[2.0], [-2.0]], wide_dtype) * np.sqrt(wide_dtype.as_numpy_dtype(wide_dtype.max))
    agree(ops.low_rank_matrix, p, p)
    largest, smallest = wide_dtype.max, wide_dtype.min
    assert ops.low_rank_matrix(p, p, lowering=lowering).numpy().tolist() == [
        [largest, smallest],
        [smallest, largest],
    ]


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_columns_become_orthonormal_or_zero_and_span_the_same_space(m, r, rank, seed):
    rng = np.random.default_rng(seed)
    p = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, r))
    q = ops.orthonormal_columns(tf.constant(p)).numpy()
    gram = q.T @ q
    np.testing.assert_allclose(gram, np.diag(np.round(np.diag(gram))), atol=1e-9)
    np.testing.assert_allclose(q @ (q.T @ p), p, atol=1e-9)


def test_a_matrix_goes_where_a_result_is_wanted():
    p, out = np.ones([3, 1], np.float32), np.empty(9, np.float32)
    before = donation.result_place.set(out)
    matrix = ops.low_rank_matrix(p, p)
    donation.result_place.reset(before)
    assert np.shares_memory(matrix, out)
    assert matrix.tolist() == [[1] * 3] * 3


def test_arguments_of_the_wrong_kind_are_refused_while_building(lowering):
    a, p, q = tf.zeros([4, 6]), tf.zeros([4, 2]), tf.zeros([6, 2])
    double, vague = tf.zeros([6, 2], tf.float64), tf.TensorSpec([None, None])
    for error, message, call in [
        (TypeError, "a must be float32 or float64", lambda: ops.matrix_times([[1]], p, lowering=lowering)),
        (TypeError, "b must be float32", lambda: ops.matrix_times(a, double, lowering=lowering)),
        (ValueError, "a must be a matrix", lambda: ops.matrix_times(a[0], q, lowering=lowering)),
        (ValueError, "do not fit", lambda: ops.matrix_times(a, p, lowering=lowering)),
        (TypeError, "q must be", lambda: ops.low_rank_matrix(p, double, lowering=lowering)),
        (ValueError, "same number", lambda: ops.low_rank_matrix(p, a, lowering=lowering)),
        (
            ValueError,
            "must be known",
            lambda: tf.function(
                lambda p: ops.low_rank_matrix(p, p, lowering=lowering), autograph=False
            ).get_concrete_function(vague),
        ),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_shapes_that_do_not_fit_when_run_are_refused(lowering):
    matrix, factor = tf.TensorSpec([None, None]), tf.TensorSpec([None, 2])

    @tf.function(input_signature=[matrix, factor], autograph=False)
    def times(a, b):
        return ops.matrix_times(a, b, lowering=lowering)

    a, p, q = tf.ones([4, 6]), tf.ones([4, 2]), tf.ones([6, 2])
    assert times(a, q).numpy().tolist() == [[6, 6]] * 4
    with pytest.raises(tf.errors.InvalidArgumentError):
        times(a, p)


def test_there_must_be_a_column(lowering):
    none = tf.zeros([3, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="column"):
        ops.low_rank_matrix(none, none, lowering=lowering)
    with pytest.raises(ArgumentError, match="column"):
        ops.low_rank_matrix(none.numpy(), none.numpy())
    assert ops.matrix_times(tf.zeros([4, 3]), none, lowering=lowering).shape == [4, 0]
