"""Products with thin matrices on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug import kernels
from fedplug.errors import ArgumentError


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_is_the_sum_of_products_of_columns(dtype):
    p, q = normal(30, 3, dtype=dtype), normal(50, 3, dtype=dtype)
    matrix = kernels.low_rank_matrix(p, q)
    np.testing.assert_array_equal(matrix, p[:, :1] * q[:, 0] + p[:, 1:2] * q[:, 1] + p[:, 2:] * q[:, 2])
    out = np.empty_like(matrix)
    assert kernels.low_rank_matrix(p, q, out=out) is out
    np.testing.assert_array_equal(out, matrix)


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
        (lambda: kernels.low_rank_matrix(p, q.astype(np.float64)), "q has dtype float64; it must be float32"),
        (lambda: kernels.low_rank_matrix(p, q, out=a[:3]), "out has 18 elements"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            call()
