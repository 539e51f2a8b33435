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
from fedplug.ops.donation import donate_residuals
from fedplug.ops.lowering import use_lowering

SEEDS, SIZES, RANKS = st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(1, 6)


def _arrays(seed, m, n, r, dtype):
    """A matrix, and factors in its wide dtype."""
    rng, wide = np.random.default_rng(seed), ops.wide_dtype(dtype).as_numpy_dtype
    matrices = [rng.standard_normal(shape) for shape in ((m, n), (m, r), (n, r))]
    return matrices[0].astype(dtype.as_numpy_dtype), matrices[1].astype(wide), matrices[2].astype(wide)


def _same(got, tensor):
    assert np.asarray(got).tobytes() == tensor.numpy().tobytes()
    assert np.shape(got) == tuple(tensor.shape)


@settings(deadline=None)
@given(seed=SEEDS, m=SIZES, n=SIZES, r=RANKS)
def test_op_and_reference_give_the_same_bits(agree, dtype, seed, m, n, r):
    a, p, q = _arrays(seed, m, n, r, dtype)
    scale = p.dtype.type(1.7)
    agree(ops.low_rank_matrix, p, q, scale=scale, dtype=dtype)
    if a.dtype == p.dtype:
        agree(ops.sum_and_largest, a, a[::-1])
        agree(ops.matrix_times, a, q, scale=scale)
        agree(ops.matrix_times, a, p, scale=scale, transposed=True)
        agree(ops.low_rank_residual, a, p, q, scale=scale)


@pytest.mark.parametrize("shape", [(900, 300), (5, 20_000), (20_000, 5)])
def test_large_matrices_on_several_threads_have_the_same_bits_in_a_graph(wide_dtype, shape):
    a, p, q = _arrays(0, *shape, 2, wide_dtype)
    results = []
    for lowering in ("fused", "reference"):

        @tf.function(autograph=False)
        def run(a, p, q, lowering=lowering):
            with use_lowering(lowering):
                total, scale = ops.sum_and_largest(a, a)
                times = ops.matrix_times(total, q, scale=scale)
                transposed = ops.matrix_times(total, p, scale=scale, transposed=True)
                matrix = ops.low_rank_matrix(p, q, scale=scale, dtype=a.dtype)
                return total, times, transposed, matrix, ops.low_rank_residual(total, p, q, scale=scale)

        results.append(run(*map(tf.constant, (a, p, q))))
    for fused, reference in zip(*results, strict=True):
        assert fused.numpy().tobytes() == reference.numpy().tobytes()


def test_zeros_over_a_scale_of_zero_are_zero(lowering, wide_dtype):
    a, p, _ = _arrays(0, 5, 3, 2, wide_dtype)
    assert not ops.matrix_times(a, p, scale=0, transposed=True, lowering=lowering).numpy().any()


def test_overflow_becomes_the_largest_number(agree, lowering, dtype):
    wide = ops.wide_dtype(dtype)
    p = tf.constant([[1.0], [-1.0]], wide) * np.sqrt(wide.as_numpy_dtype(wide.max))
    agree(ops.low_rank_matrix, p, p, scale=4, dtype=dtype)
    matrix = ops.low_rank_matrix(p, p, scale=4, dtype=dtype, lowering=lowering)
    assert matrix.numpy().tolist() == [[dtype.max, dtype.min], [dtype.min, dtype.max]]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_sums_need_not_be_finite(lowering, wide_dtype, bad):
    total, largest = ops.sum_and_largest(
        tf.constant([1.0, bad], wide_dtype), tf.zeros([2], wide_dtype), lowering=lowering
    )
    np.testing.assert_array_equal(tf.cast(total, tf.float64), [1.0, bad])
    np.testing.assert_array_equal(tf.cast(largest, tf.float64), abs(bad))


def test_denormals_are_kept_by_kernels_and_ops(wide_dtype):
    denormal = 1e-310 if wide_dtype == tf.float64 else 1e-39
    tiny = tf.constant([denormal, 2 * denormal], wide_dtype)
    total, largest = ops.sum_and_largest(tiny, tf.zeros_like(tiny), lowering="fused")
    np.testing.assert_array_equal(total, tiny)
    assert largest.numpy() == tiny[1].numpy()
    _same(ops.sum_and_largest(tiny.numpy(), 0 * tiny.numpy()).sum, tiny)


def test_a_refused_update_leaves_even_a_donated_residual(wide_dtype):
    """A caller that refuses the sum because of its largest magnitude still needs the residual."""
    dtype = wide_dtype.as_numpy_dtype
    x, residual = np.ones([2, 3], dtype), np.full([2, 3], 2, dtype)
    with donate_residuals():
        assert ops.sum_and_largest(x, residual).sum.tolist() == [[3] * 3] * 2
    assert residual.tolist() == [[2] * 3] * 2


def test_a_matrix_goes_where_a_result_is_wanted():
    p, out = np.ones([3, 1], np.float32), np.empty(9, np.float32)
    before = donation.result_place.set(out)
    matrix = ops.low_rank_matrix(p, p, dtype="float32")
    donation.result_place.reset(before)
    assert np.shares_memory(matrix, out)
    assert matrix.tolist() == [[1] * 3] * 3


def test_arguments_of_the_wrong_kind_are_refused_while_building(lowering):
    a, p, q = tf.zeros([4, 6]), tf.zeros([4, 2]), tf.zeros([6, 2])
    double, vague = tf.zeros([6, 2], tf.float64), tf.TensorSpec([None, None])
    for error, message, call in [
        (
            TypeError,
            "delta must be float32 or float64",
            lambda: ops.sum_and_largest([1], [1], lowering=lowering),
        ),
        (ValueError, "must be equal", lambda: ops.sum_and_largest(a, p, lowering=lowering)),
        (TypeError, "a must be float32 or float64", lambda: ops.matrix_times([[1]], p, lowering=lowering)),
        (TypeError, "b must be float32", lambda: ops.matrix_times(a, double, lowering=lowering)),
        (ValueError, "a must be a matrix", lambda: ops.matrix_times(a[0], q, lowering=lowering)),
        (ValueError, "do not fit", lambda: ops.matrix_times(a, p, lowering=lowering)),
        (TypeError, "q must be", lambda: ops.low_rank_matrix(p, double, dtype="half", lowering=lowering)),
        (ValueError, "same number", lambda: ops.low_rank_matrix(p, a, dtype="half", lowering=lowering)),
        (ValueError, "must be equal", lambda: ops.low_rank_residual(a, q, p, lowering=lowering)),
        (
            ValueError,
            "must be known",
            lambda: tf.function(
                lambda p: ops.low_rank_matrix(p, p, dtype="half", lowering=lowering), autograph=False
            ).get_concrete_function(vague),
        ),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_shapes_that_do_not_fit_when_run_are_refused(lowering):
    matrix, factor = tf.TensorSpec([None, None]), tf.TensorSpec([None, 2])

    @tf.function(input_signature=[matrix, matrix], autograph=False)
    def add(x, y):
        return ops.sum_and_largest(x, y, lowering=lowering)

    @tf.function(input_signature=[matrix, factor], autograph=False)
    def times(a, b):
        return ops.matrix_times(a, b, lowering=lowering)

    @tf.function(input_signature=[matrix, factor, factor], autograph=False)
    def residual(a, p, q):
        return ops.low_rank_residual(a, p, q, lowering=lowering)

    a, p, q = tf.ones([4, 6]), tf.ones([4, 2]), tf.ones([6, 2])
    assert times(a, q).numpy().tolist() == [[6, 6]] * 4
    assert residual(a, p, q).numpy().tolist() == [[-1] * 6] * 4
    for call in (lambda: add(a, p), lambda: times(a, p), lambda: residual(a, q, p)):
        with pytest.raises(tf.errors.InvalidArgumentError):
            call()


def test_there_must_be_a_column(lowering):
    none = tf.zeros([3, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="column"):
        ops.low_rank_matrix(none, none, dtype=tf.float32, lowering=lowering)
    with pytest.raises(ArgumentError, match="column"):
        ops.low_rank_matrix(none.numpy(), none.numpy(), dtype="float32")
    assert ops.matrix_times(tf.zeros([4, 3]), none, lowering=lowering).shape == [4, 0]
