"""fedplug.kernels.topk_residual, compared with a stable sort in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
UINTS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(array):
    """The array as unsigned integers: -0 differs from +0, and a NaN equals itself."""
    return array.reshape(-1).view(UINTS[array.dtype.itemsize])


def reference(delta, residual, k):
    with np.errstate(all="ignore"):
        a = delta.reshape(-1) + residual.reshape(-1)
    a[~np.isfinite(a)] = 0
    indices = np.sort(np.argsort(-np.abs(a).astype(np.float64), kind="stable")[:k]).astype(np.int32)
    values = a[indices]
    a[indices] = 0
    return values, indices, a


@st.composite
def updates(draw):
    """(delta, residual): normal numbers, a few levels with many ties, or arbitrary bits."""
    dtype = draw(st.sampled_from(DTYPES))
    n = draw(st.one_of(st.integers(0, 40), st.sampled_from([255, 256, 1000])))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    fills = {
        "normal": lambda: random.standard_normal(n).astype(dtype),
        "levels": lambda: (random.integers(-2, 3, n) * np.copysign(1.0, random.standard_normal(n))).astype(
            dtype
        ),
        "denormal": lambda: random.integers(0, 50, n).astype(UINTS[dtype.itemsize]).view(dtype),
        "bits": lambda: np.frombuffer(random.bytes(n * dtype.itemsize), dtype).copy(),
    }
    fill = fills[draw(st.sampled_from(sorted(fills)))]
    return fill(), fill()


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
@given(updates(), st.integers(0, 1100))
@settings(deadline=None, max_examples=300)
def test_the_result_is_that_of_a_stable_sort(update, k):
    delta, residual = update
    expected = reference(delta, residual, k)
    finite = kernels.count_nonfinite(delta, residual) == 0
    for policy in ("drop", "error") if finite else ("drop",):
        left = residual.copy()
        values, indices = kernels.topk_residual(delta, left, k, on_nonfinite=policy)
        assert (values.dtype, indices.dtype) == (delta.dtype, np.int32)
        np.testing.assert_array_equal(indices, expected[1])
        np.testing.assert_array_equal(bits(values), bits(expected[0]))
        np.testing.assert_array_equal(bits(left), bits(expected[2]))


def test_the_residual_is_updated_in_its_own_buffer_and_delta_is_not():
    delta = np.array([[1.0, -5.0], [2.0, 0.0]], np.float32)
    residual = np.ones((2, 2), np.float32)
    address = residual.ctypes.data
    values, indices = kernels.topk_residual(delta, residual, 2)
    assert residual.ctypes.data == address
    np.testing.assert_array_equal(values, np.float32([-4, 3]))
    np.testing.assert_array_equal(indices, [1, 2])
    np.testing.assert_array_equal(residual, np.float32([[2, 0], [0, 1]]))
    np.testing.assert_array_equal(delta, np.float32([[1, -5], [2, 0]]))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_a_non_finite_sum_is_counted_and_leaves_the_residual_as_it_was(dtype):
    delta = np.array([1, np.nan, 3, np.inf], dtype)
    residual = np.array([1, 2, -0.0, 4], dtype)
    before = residual.copy()
    with pytest.raises(errors.NonFiniteError, match=r"2 of 4 sums .* the first at index 1") as caught:
        kernels.topk_residual(delta, residual, 1)
    assert caught.value.count == 2
    assert kernels.count_nonfinite(delta, residual) == 2
    np.testing.assert_array_equal(bits(residual), bits(before))


def test_two_finite_numbers_may_have_a_sum_that_is_not():
    largest = np.full(3, np.finfo(np.float32).max)
    assert kernels.count_nonfinite(largest, largest.copy()) == 3


def read_only(array):
    array.flags.writeable = False
    return array


REFUSED = {
    "a list": ([1.0], np.zeros(1), 1, "delta must be a NumPy array, not list"),
    "integers": (np.arange(3), np.zeros(3), 1, "delta has dtype int64; it must be float32 or float64"),
    "16 bits": (
        np.zeros(3, np.float16),
        np.zeros(3, np.float16),
        1,
        r"delta has dtype float16; it must be float32 or float64 \(fedplug.ops.widened",
    ),
    "two dtypes": (
        np.zeros(3),
        np.zeros(3, np.float32),
        1,
        "residual has dtype float32; it must be float64, as",
    ),
    "swapped bytes": (np.zeros(3, ">f4"), np.zeros(3, ">f4"), 1, "delta has dtype >f4"),
    "two sizes": (np.zeros(3), np.zeros(4), 1, "delta has 3 elements and residual has 4"),
    "a stride": (np.zeros(6)[::2], np.zeros(3), 1, "delta is not C-contiguous; pass numpy.ascontiguousarray"),
    "Fortran order": (np.zeros((2, 3)), np.zeros((2, 3), order="F"), 1, "residual is not C-contiguous"),
    "a read-only residual": (np.zeros(3), read_only(np.zeros(3)), 1, "residual is read-only"),
    "half an element": (np.zeros(17, np.int8)[1:].view(np.float64), np.zeros(2), 1, "delta is not aligned"),
    "a negative k": (np.zeros(3), np.zeros(3), -1, "k = -1 is negative"),
}


@pytest.mark.parametrize(("delta", "residual", "k", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_an_array_that_cannot_be_used_as_it_lies_is_refused_and_never_copied(delta, residual, k, message):
    before = residual.copy()
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.topk_residual(delta, residual, k)
    np.testing.assert_array_equal(residual, before)


def test_delta_and_residual_must_not_share_memory():
    memory = np.zeros(6, np.float32)
    with pytest.raises(errors.ArgumentError, match="delta and residual share memory"):
        kernels.topk_residual(memory[:4], memory[2:], 1)
    kernels.topk_residual(memory[:3], memory[3:], 1)


def test_an_unknown_policy_is_refused():
    with pytest.raises(errors.ArgumentError, match="on_nonfinite is 'ignore'; it must be 'error' or 'drop'"):
        kernels.topk_residual(np.zeros(1), np.zeros(1), 1, on_nonfinite="ignore")
