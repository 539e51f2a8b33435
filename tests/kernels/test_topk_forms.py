"""Selections from lists, compared with the plain selection."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug import errors, kernels

SHAPES = [(30,), (0,), (7, 9), (1,), (20, 300), ()]


def model(seed, dtype=np.float32, levels=False):
    random = np.random.default_rng(seed)
    draw = (lambda s: random.integers(-2, 3, s)) if levels else random.standard_normal
    return [np.asarray(draw(shape)).astype(dtype) for shape in SHAPES]


def flat(arrays):
    return np.concatenate([a.reshape(-1) for a in arrays])


@pytest.mark.parametrize("k", [3, [1] * 6], ids=["one k", "a k each"])
def test_a_non_finite_sum_in_one_tensor_leaves_all_as_they_were(k):
    deltas, residuals = model(1), model(2)
    deltas[4][3, 5] = np.nan
    before = flat(residuals)
    with pytest.raises(errors.NonFiniteError, match="1 of 6000 sums of delta and residual of tensor 4"):
        kernels.grouped_topk_residual(deltas, residuals, k)
    np.testing.assert_array_equal(flat(residuals), before)


def test_lists_that_cannot_be_used_are_refused():
    deltas, residuals = model(1), model(2)
    with pytest.raises(errors.ArgumentError, match="6 deltas and 5 residuals"):
        kernels.grouped_topk_residual(deltas, residuals[:5], 1)
    with pytest.raises(errors.ArgumentError, match="there are 2 ks for 6 tensors"):
        kernels.grouped_topk_residual(deltas, residuals, [1, 2])
    with pytest.raises(errors.ArgumentError, match="shares memory with another array of the call"):
        kernels.grouped_topk_residual(deltas[:2] + deltas[:2], residuals[:2] * 2, 1)
    with pytest.raises(errors.ArgumentError, match="tensor 2: k = -1 is negative"):
        kernels.grouped_topk_residual(deltas, residuals, [0, 0, -1, 0, 0, 0])


def test_the_entries_of_an_earlier_call_are_written_over():
    delta, residual = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    out = kernels.topk_residual(delta, residual, 2)
    values, indices = kernels.topk_residual(delta[::-1].copy(), residual, 2, out=out)
    assert values is out[0]
    assert indices is out[1]
    np.testing.assert_array_equal(indices, [0, 1])
    np.testing.assert_array_equal(values, [8, 8])


@pytest.mark.parametrize("k", [7, [1, 0, 2, 1, 2, 1]])
def test_the_entries_of_an_earlier_list_are_written_over(k):
    out = kernels.grouped_topk_residual(model(1), model(2), k)[:2]
    wanted = kernels.grouped_topk_residual(model(3), model(4), k)
    values, indices, row_splits = kernels.grouped_topk_residual(model(3), model(4), k, out=out)
    assert values is out[0]
    assert indices is out[1]
    for actual, expected in zip((values, indices, row_splits), wanted, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_the_entries_of_a_list_may_not_be_written_over_its_tensors():
    deltas, residuals = model(1), model(2)
    before = flat(residuals)
    for array in (deltas[4], residuals[4]):
        out = array.ravel()[:7], np.zeros(7, np.int32)
        with pytest.raises(errors.ArgumentError, match="one of out, shares memory"):
            kernels.grouped_topk_residual(deltas, residuals, 7, out=out)
    np.testing.assert_array_equal(flat(residuals), before)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            (np.zeros(2), np.zeros(2, np.int32)),
            r"out\[0\] has dtype float64; it must be float32, as delta",
        ),
        ((np.zeros(2, np.float32), np.zeros(2, np.int64)), r"out\[1\] has dtype int64"),
        ((np.zeros(3, np.float32), np.zeros(2, np.int32)), "out has 3 values and 2 indices; it must have 2"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out, message):
    delta, residual = np.ones(9, np.float32), np.ones(9, np.float32)
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.topk_residual(delta, residual, 2, out=out)
    np.testing.assert_array_equal(residual, 1)
