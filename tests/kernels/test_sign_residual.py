"""fedplug.kernels.sign_residual against the value code of the sum."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

DTYPES = [np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]


@given(st.sampled_from(DTYPES), st.integers(0, 2500), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_the_code_is_that_of_the_sum_and_the_rest_stays(dtype, size, seed):
    delta, residual = np.random.default_rng(seed).standard_normal((2, size)).astype(dtype)
    a = delta + residual
    code = kernels.sign_residual(delta, residual)
    np.testing.assert_array_equal(code, kernels.encode_values(a, "sign"))
    rest = a - kernels.decode_values(code, size, "sign", dtype=dtype)
    assert residual.tobytes() == rest.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sum_that_is_not_finite_is_refused_and_nothing_is_changed(dtype, bad):
    delta, residual = np.ones((2, 3000), dtype)
    delta[7] = bad
    with pytest.raises(errors.NonFiniteError, match="1 of 3000 sums") as caught:
        kernels.sign_residual(delta, residual)
    assert caught.value.count == 1
    assert (residual == 1).all()


def test_the_largest_numbers_there_are_can_be_coded():
    for dtype in (np.float32, np.float64, np.float16):
        delta, residual = np.full(33, np.finfo(dtype).max, dtype), np.zeros(33, dtype)
        kernels.sign_residual(delta, residual)
        assert np.isfinite(residual).all()


def test_arrays_that_do_not_fit_are_refused():
    x = np.zeros(6, np.float32)
    with pytest.raises(errors.ArgumentError, match="delta has 6 elements and residual has 3"):
        kernels.sign_residual(x, np.zeros(3, np.float32))
    with pytest.raises(errors.ArgumentError, match="share memory"):
        kernels.sign_residual(x, x)
