"""Selections from arrays and lists: places, errors, memory. csrc/tests compares them with references."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fedplug import errors, kernels

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
UINTS = {4: np.uint32, 8: np.uint64}


def bits(array):
    """The array as unsigned integers: -0 differs from +0, and a NaN equals itself."""
    return array.reshape(-1).view(UINTS[array.dtype.itemsize])


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
def test_a_non_finite_sum_is_counted_and_does_not_change_the_residual(dtype):
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
held = kernels.topk_residual(delta, residual.copy(), delta.size)  # keeps its scratch memory
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
unlimited = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 24), unlimited[1]))
try:
    kernels.topk_residual(delta, residual, delta.size)
except MemoryError:
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
    print((residual == 1).all())
"""


def test_without_memory_for_the_entries_nothing_leaves():
    result = subprocess.run(
        [sys.executable, "-c", _WITHOUT_MEMORY], capture_output=True, text=True, check=True
    )
    assert result.stdout == "True\n"


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
