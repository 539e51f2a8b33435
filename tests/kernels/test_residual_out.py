"""Residuals written to other arrays, and missing residuals, compared with the update in place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]


def assert_same(actual, expected):
    """Compares bits: -0 differs from +0, and a NaN equals itself."""
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@st.composite
def updates(draw, dtypes=DTYPES):
    """(delta, residual, residual_out): normal numbers, or many ties and zeros of both signs."""
    dtype = draw(st.sampled_from(dtypes))
    n = draw(st.one_of(st.integers(0, 40), st.sampled_from([255, 1000, 5000])))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        delta, residual = random.standard_normal((2, n)).astype(dtype)
    else:
        signs = np.copysign(1.0, random.standard_normal((2, n)))
        delta, residual = (random.integers(-2, 3, (2, n)) * signs).astype(dtype)
    if draw(st.booleans()):
        residual = None
    return delta, residual, np.full(n, np.nan, dtype)


SELECTIONS = {
    "topk": lambda delta, residual, **out: kernels.topk_residual(delta, residual, delta.size // 7, **out),
    "topk, dropping": lambda delta, residual, **out: kernels.topk_residual(
        delta, residual, delta.size // 7, on_nonfinite="drop", **out
    ),
    "chunks": lambda delta, residual, **out: kernels.chunked_topk_residual(
        delta, residual, 3, chunk=100, decay=0.75, **out
    ),
}


@pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS.keys())
@given(update=updates())
@settings(deadline=None, max_examples=150)
def test_elsewhere_is_as_in_place_and_leaves_the_old_residual(select, update):
    delta, residual, residual_out = update
    in_place = np.zeros_like(delta) if residual is None else residual.copy()
    expected = select(delta, in_place)
    before = None if residual is None else read_only(residual)
    assert_same(select(read_only(delta), before, residual_out=residual_out), expected)
    assert_same([residual_out], [in_place])


@given(
    st.lists(updates(dtypes=[np.dtype(np.float32)]), min_size=1, max_size=5),
    st.one_of(st.integers(0, 3000), st.just("each")),
)
@settings(deadline=None, max_examples=100)
def test_a_list_elsewhere_is_as_in_place(update, k):
    deltas, residuals, outs = (list(part) for part in zip(*update, strict=True))
    if k == "each":
        k = [delta.size // 3 for delta in deltas]
    in_place = [
        np.zeros_like(delta) if residual is None else residual.copy()
        for delta, residual in zip(deltas, residuals, strict=True)
    ]
    expected = kernels.grouped_topk_residual(deltas, in_place, k)
    before = [None if residual is None else read_only(residual) for residual in residuals]
    assert_same(kernels.grouped_topk_residual(deltas, before, k, residuals_out=outs), expected)
    assert_same(outs, in_place)


def test_the_residual_itself_may_be_where_the_new_one_goes():
    delta, residual = np.random.default_rng(0).standard_normal((2, 500)).astype(np.float32)
    expected = residual.copy()
    kernels.topk_residual(delta, expected, 9)
    kernels.topk_residual(delta, residual, 9, residual_out=residual)
    np.testing.assert_array_equal(residual, expected)


@pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS.keys())
def test_a_refused_sum_leaves_the_old_residual(select):
    delta, residual = np.ones((2, 700), np.float32)
    delta[5] = np.inf
    if select is SELECTIONS["topk, dropping"]:
        assert kernels.count_nonfinite(delta, None) == 1
        return
    before = residual.copy()
    for old, out in ((read_only(residual), True), (None, True), (residual, False)):
        with pytest.raises(errors.NonFiniteError, match="1 of 700 sums") as caught:
            select(delta, old, residual_out=np.empty(700, np.float32) if out else None)
        assert caught.value.count == 1
    np.testing.assert_array_equal(residual, before)


X = np.zeros(8, np.float32)
REFUSED = {
    "a residual of another size": (
        {"residual": np.zeros(7, np.float32)},
        "delta has 8 elements and residual has 7",
    ),
    "a residual of another dtype": ({"residual": np.zeros(8)}, "residual has dtype float64"),
    "the residual is delta": ({"residual": X}, "delta and residual share memory"),
    "nowhere": ({"residual": None}, "residual is None; then residual_out must be an array"),
    "another size": (
        {"residual_out": np.zeros(7, np.float32)},
        "delta has 8 elements and residual_out has 7",
    ),
    "another dtype": (
        {"residual_out": np.zeros(8)},
        "residual_out has dtype float64; it must be float32, as delta",
    ),
    "read-only": ({"residual_out": read_only(X)}, "residual_out is read-only"),
    "onto delta": ({"residual_out": X}, "delta and residual_out share memory"),
    "onto a part of the residual": (
        {"residual": (both := np.zeros(12, np.float32))[:8], "residual_out": both[4:]},
        "residual and residual_out share memory",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("select", SELECTIONS.values(), ids=SELECTIONS.keys())
def test_read_only_outputs_are_refused(select, changes, message):
    arguments = {"delta": X, "residual": np.zeros(8, np.float32), **changes}
    with pytest.raises(errors.ArgumentError, match=message):
        select(**arguments)


def test_entries_and_new_residual_must_not_share_memory():
    memory = np.zeros(10, np.float32)
    out = (memory[:2], np.zeros(2, np.int32))
    with pytest.raises(errors.ArgumentError, match=r"residual_out and out\[0\] share memory"):
        kernels.topk_residual(X, None, 2, out=out, residual_out=memory[1:9])


def test_lists_that_do_not_fit_are_refused():
    deltas = [np.zeros(3, np.float32), np.zeros(4, np.float32)]
    outs = [np.zeros(3, np.float32), np.zeros(4, np.float32)]
    with pytest.raises(errors.ArgumentError, match="there are 1 residuals_out for 2 deltas"):
        kernels.grouped_topk_residual(deltas, [None, None], 1, residuals_out=outs[:1])
    with pytest.raises(errors.ArgumentError, match="residual is None; then residual_out must be"):
        kernels.grouped_topk_residual(deltas, [None, None], 1)
    with pytest.raises(errors.ArgumentError, match="shares memory with another array of the call"):
        kernels.grouped_topk_residual(deltas, [None, None], 1, residuals_out=[deltas[1][:3], outs[1]])
