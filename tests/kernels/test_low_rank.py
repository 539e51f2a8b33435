"""Products with thin matrices on NumPy arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fedplug import kernels
from fedplug.errors import ArgumentError

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def wide(dtype):
    return np.float64 if dtype == np.float64 else np.float32


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_a_residual_is_the_error_of_the_matrix(dtype):
    a, p, q = normal(30, 50, dtype=dtype), normal(30, 3, dtype=wide(dtype)), normal(50, 3, dtype=wide(dtype))
    sums = p[:, :1] * q[:, 0] + p[:, 1:2] * q[:, 1] + p[:, 2:] * q[:, 2]
    matrix = kernels.low_rank_matrix(p, q, scale=0.5, dtype=dtype)
    np.testing.assert_array_equal(matrix, (sums * wide(dtype)(0.5)).astype(dtype))
    out = np.empty_like(a)
    assert kernels.low_rank_matrix(p, q, scale=0.5, dtype=dtype, out=out) is out
    np.testing.assert_array_equal(out, matrix)
    if dtype != wide(dtype):
        return
    left = kernels.low_rank_residual(a, p, q, scale=0.5)
    np.testing.assert_array_equal(left, a - matrix)
    assert kernels.low_rank_residual(a, p, q, scale=0.5, out=a) is a
    np.testing.assert_array_equal(a, left)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=lambda dtype: np.dtype(dtype).name)
def test_a_sum_and_its_largest_magnitude(dtype):
    delta, residual = normal(5000, dtype=dtype), normal(5000, dtype=dtype, seed=1)
    out = np.empty_like(delta)
    total, largest = kernels.sum_and_largest(delta, residual, out=out)
    assert total is out
    np.testing.assert_array_equal(out, delta + residual)
    assert largest.tolist() == [abs(out).max()]
    total, again = kernels.sum_and_largest(delta, residual)
    assert total is residual
    np.testing.assert_array_equal(residual, out)
    assert again == largest
    assert kernels.sum_and_largest(delta[:0], residual[:0])[1].tolist() == [0]
    delta[7] = np.nan
    assert np.isnan(kernels.sum_and_largest(delta, residual, out=out)[1])


def test_arrays_that_do_not_fit_are_refused():
    a, p, q = normal(4, 6), normal(4, 2), normal(6, 2)
    for call, message in [
        (lambda: kernels.matrix_times(a, p), "there are 6 columns of a and 4 rows of b"),
        (lambda: kernels.matrix_times(a, q, transposed=True), "there are 4 rows of a and 6 rows of b"),
        (lambda: kernels.matrix_times(a[0], q), "a has 1 dimensions"),
        (lambda: kernels.matrix_times(a, q.astype(np.float64)), "b has dtype float64; it must be float32"),
        (lambda: kernels.matrix_times(a.T, p), "not C-contiguous"),
        (lambda: kernels.low_rank_matrix(p, q[:, :1].copy()), "there are 2 columns of p and 1 columns of q"),
        (lambda: kernels.low_rank_matrix(p[:, :0], q[:, :0]), "there must be a column"),
        (lambda: kernels.low_rank_matrix(p, q, dtype=np.float64), "p has dtype float32; it must be float64"),
        (lambda: kernels.low_rank_matrix(p, q, dtype=np.int32), "float"),
        (lambda: kernels.low_rank_matrix(p, q, out=a[:3]), "out has 18 elements"),
        (lambda: kernels.low_rank_residual(a[:3], p, q), "there are 18 elements of a and 24 of the product"),
        (lambda: kernels.low_rank_residual(a, p, q, out=a.reshape(-1)[1:]), "out has 23 elements"),
        (lambda: kernels.sum_and_largest(a, p), "the same number"),
        (lambda: kernels.sum_and_largest(a, a), "share memory"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            call()
