"""Selections of entries, compared with a stable sort or a comparison in NumPy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
UINTS = {4: np.uint32, 8: np.uint64}


def bits(array):
    """The array as unsigned integers: -0 differs from +0, and a NaN equals itself."""
    return array.reshape(-1).view(UINTS[array.dtype.itemsize])


def largest(a, k):
    """The indices of the k largest magnitudes, ties to the lower index."""
    return np.sort(np.argsort(-np.abs(a).astype(np.float64), kind="stable")[:k])


def assert_chosen(found, residual, a, chosen):
    """Asserts that the chosen entries of the sums `a` left, and that the others are the residual."""
    values, indices = found
    assert (values.dtype, indices.dtype) == (a.dtype, np.int32)
    np.testing.assert_array_equal(indices, chosen)
    np.testing.assert_array_equal(bits(values), bits(a[chosen]))
    a[chosen] = 0
    np.testing.assert_array_equal(bits(residual), bits(a))


@st.composite
def updates(draw, kinds=("normal", "levels", "denormal")):
    """(delta, residual): normal numbers, a few levels with many ties and zeros, or denormal numbers."""
    dtype = draw(st.sampled_from(DTYPES))
    n = draw(st.one_of(st.integers(0, 40), st.sampled_from([255, 256, 2049, 9000])))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(kinds))
    if kind == "normal":
        return tuple(random.standard_normal((2, n)).astype(dtype))
    if kind == "levels":
        signs = np.copysign(1.0, random.standard_normal((2, n)))
        return tuple((random.integers(-2, 3, (2, n)) * signs).astype(dtype))
    if kind == "denormal":
        return tuple(random.integers(0, 50, (2, n)).astype(UINTS[dtype.itemsize]).view(dtype))
    return tuple(np.frombuffer(random.bytes(2 * n * dtype.itemsize), dtype).reshape(2, n).copy())


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
@given(updates(kinds=["normal", "levels", "denormal", "any bits"]), st.integers(0, 1100))
@settings(deadline=None, max_examples=300)
def test_the_k_largest_leave_and_the_rest_stays_bit_for_bit(update, k):
    delta, residual = update
    finite = kernels.count_nonfinite(delta, residual) == 0
    for policy in ("drop", "error") if finite else ("drop",):
        a, left = delta + residual, residual.copy()
        a[~np.isfinite(a)] = 0
        found = kernels.topk_residual(delta, left, k, on_nonfinite=policy)
        assert_chosen(found, left, a, largest(a, k))


@given(
    updates(),
    st.sampled_from([0, 1, 3, 64, 5000]),
    st.sampled_from([1, 7, 300, 4096, 2**31]),
    st.sampled_from([1.0, 0.95, 0.5, 0.0]),
)
@settings(deadline=None, max_examples=300)
def test_the_largest_of_each_chunk_leave_and_the_rest_stays_bit_for_bit(update, k, chunk, decay):
    delta, residual = update
    a = delta + delta.dtype.type(decay) * residual
    places = [begin + largest(a[begin : begin + chunk], k) for begin in range(0, a.size, chunk)]
    found = kernels.chunked_topk_residual(delta, residual, k, chunk=chunk, decay=decay)
    assert_chosen(found, residual, a, np.concatenate([np.zeros(0, np.int64), *places]))


@given(updates(), st.sampled_from([0, 1e-30, 0.5, 1, 2.5758, 1e9, np.inf]))
@settings(deadline=None, max_examples=200)
def test_what_reaches_the_threshold_leaves_and_the_rest_stays_bit_for_bit(update, threshold):
    delta, residual = update
    a = delta + residual
    chosen = np.flatnonzero((np.abs(a) >= a.dtype.type(threshold)) & (a != 0))
    assert_chosen(kernels.threshold_residual(delta, residual, threshold), residual, a, chosen)


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
    most = np.full(3, np.finfo(dtype).max)
    assert kernels.count_nonfinite(most, most.copy()) == 3


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
    "swapped bytes": (np.zeros(3, ">f4"), np.zeros(3, ">f4"), 1, "delta has dtype >f4"),
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (lambda *x, given=given: kernels.chunked_topk_residual(*x, **given), message)
            for given, message in [
                ({"k": -1, "chunk": 4}, "k = -1 is negative"),
                ({"k": 1, "chunk": 0}, "chunk = 0 is not 1 or more"),
                ({"k": 1, "chunk": 4, "decay": 1.1}, r"decay is not in \[0, 1\]"),
                ({"k": 1, "chunk": 4, "decay": -0.1}, r"decay is not in \[0, 1\]"),
                ({"k": 1, "chunk": 4, "decay": np.nan}, r"decay is not in \[0, 1\]"),
            ]
        ),
        *(
            (lambda *x, t=t: kernels.threshold_residual(*x, t), "threshold is negative or no number")
            for t in (-1, np.nan, -1e-45)
        ),
        (
            lambda *x: kernels.topk_residual(*x, 1, on_nonfinite="ignore"),
            "on_nonfinite is 'ignore'; it must be 'error' or 'drop'",
        ),
    ],
)
def test_options_out_of_range_are_refused(call, message):
    with pytest.raises(errors.ArgumentError, match=message):
        call(*np.zeros((2, 3), np.float32))


_WITHOUT_MEMORY = """
import resource
import numpy as np
from fedplug import kernels

delta, residual = np.ones((2, 1 << 24), np.float32)
held = kernels.threshold_residual(delta, residual.copy(), 1)  # keeps its scratch memory
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
unlimited = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 24), unlimited[1]))
try:
    kernels.threshold_residual(delta, residual, 1)
except MemoryError:
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
    print((residual == 1).all())
"""


def test_without_memory_for_the_entries_nothing_leaves():
    result = subprocess.run(
        [sys.executable, "-c", _WITHOUT_MEMORY], capture_output=True, text=True, check=True
    )
    assert result.stdout == "True\n"
