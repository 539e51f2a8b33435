"""Selections from arrays and lists: places, errors, memory; new residuals elsewhere equal those in place.

csrc/tests compares selections with references.
"""

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
    array = array.copy()
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


X = np.zeros(8, np.float32)
REFUSED_OUT = {
    "a residual of another size": ({"residual": X[:7]}, "delta has 8 elements and residual has 7"),
    "a residual of another dtype": ({"residual": np.zeros(8)}, "residual has dtype float64"),
    "the residual is delta": ({"residual": X}, "delta and residual share memory"),
    "nowhere": ({"residual": None}, "residual is None; then residual_out must be an array"),
    "another size": ({"residual_out": X[:7].copy()}, "delta has 8 elements and residual_out has 7"),
    "another dtype": (
        {"residual_out": np.zeros(8)},
        "residual_out has dtype float64; it must be float32, as d",
    ),
    "read-only": ({"residual_out": read_only(X)}, "residual_out is read-only"),
    "onto delta": ({"residual_out": X}, "delta and residual_out share memory"),
    "onto a part of the residual": (
        {"residual": (both := np.zeros(12, np.float32))[:8], "residual_out": both[4:]},
        "residual and residual_out share memory",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED_OUT.values(), ids=REFUSED_OUT.keys())
def test_a_new_residual_that_does_not_fit_is_refused(changes, message):
    arguments = {"delta": X, "residual": np.zeros(8, np.float32), **changes}
    for select in SELECTIONS.values():
        with pytest.raises(errors.ArgumentError, match=message):
            select(**arguments)


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
    ("given", "message"),
    [
        ({"k": -1, "chunk": 4}, "k = -1 is negative"),
        ({"k": 1, "chunk": 0}, "chunk = 0 is not 1 or more"),
        *(
            ({"k": 1, "chunk": 4, "decay": decay}, r"decay is not in \[0, 1\]")
            for decay in (1.1, -0.1, np.nan)
        ),
    ],
)
def test_options_out_of_range_are_refused(given, message):
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.chunked_topk_residual(*np.zeros((2, 3), np.float32), **given)


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


def assert_same(actual, expected):
    """Compares bits: -0 differs from +0, and a NaN equals itself."""
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


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
    before = residual.copy()
    for old, out in ((read_only(residual), True), (None, True), (residual, False)):
        with pytest.raises(errors.NonFiniteError, match="1 of 700 sums") as caught:
            select(delta, old, residual_out=np.empty(700, np.float32) if out else None)
        assert caught.value.count == 1
    np.testing.assert_array_equal(residual, before)


def test_entries_and_new_residual_must_not_share_memory():
    memory = np.zeros(10, np.float32)
    out = (memory[:2], np.zeros(2, np.int32))
    with pytest.raises(errors.ArgumentError, match=r"residual_out and out\[0\] share memory"):
        kernels.topk_residual(np.zeros(8, np.float32), None, 2, out=out, residual_out=memory[1:9])


def test_lists_that_do_not_fit_are_refused():
    deltas = [np.zeros(3, np.float32), np.zeros(4, np.float32)]
    outs = [np.zeros(3, np.float32), np.zeros(4, np.float32)]
    with pytest.raises(errors.ArgumentError, match="there are 1 residuals_out for 2 deltas"):
        kernels.grouped_topk_residual(deltas, [None, None], 1, residuals_out=outs[:1])
    with pytest.raises(errors.ArgumentError, match="residual is None; then residual_out must be"):
        kernels.grouped_topk_residual(deltas, [None, None], 1)
    with pytest.raises(errors.ArgumentError, match="shares memory with another array of the call"):
        kernels.grouped_topk_residual(deltas, [None, None], 1, residuals_out=[deltas[1][:3], outs[1]])
