"""fedplug.kernels.chunked_topk_residual, compared with a sort of each chunk in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
UINTS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(array):
    """The array as unsigned integers: -0 differs from +0."""
    return array.reshape(-1).view(UINTS[array.dtype.itemsize])


def largest(a, k, chunk):
    """The indices of the k largest magnitudes of every chunk, ties to the lower index."""
    places = []
    for begin in range(0, a.size, chunk):
        magnitudes = np.abs(a[begin : begin + chunk].astype(np.float64))
        places.append(begin + np.sort(np.argsort(-magnitudes, kind="stable")[:k]))
    return np.concatenate(places) if places else np.zeros(0, np.int64)


@st.composite
def updates(draw):
    """(delta, residual): normal numbers, a few levels with many zeros, or denormal numbers."""
    dtype = draw(st.sampled_from(DTYPES))
    n = draw(st.one_of(st.integers(0, 40), st.sampled_from([255, 2049, 9000])))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "levels", "denormal"]))
    if kind == "normal":
        return tuple(random.standard_normal((2, n)).astype(dtype))
    if kind == "levels":
        signs = np.copysign(1.0, random.standard_normal((2, n)))
        return tuple((random.integers(-2, 3, (2, n)) * signs).astype(dtype))
    return tuple(random.integers(0, 50, (2, n)).astype(UINTS[dtype.itemsize]).view(dtype))


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
    chosen = largest(a, k, chunk)
    values, indices = kernels.chunked_topk_residual(delta, residual, k, chunk=chunk, decay=decay)
    np.testing.assert_array_equal(indices, chosen)
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(bits(values), bits(a[chosen]))
    a[chosen] = 0
    np.testing.assert_array_equal(bits(residual), bits(a))


@given(updates(), st.integers(0, 50))
@settings(deadline=None, max_examples=50)
def test_one_chunk_without_decay_is_plain_topk(update, k):
    delta, residual = update
    plain = residual.copy()
    expected = kernels.topk_residual(delta, plain, k)
    got = kernels.chunked_topk_residual(delta, residual, k, chunk=max(delta.size, 1))
    for one, other in zip((*got, residual), (*expected, plain), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"k": -1, "chunk": 4}, "k = -1 is negative"),
        ({"k": 1, "chunk": 0}, "chunk = 0 is not 1 or more"),
        ({"k": 1, "chunk": 4, "decay": 1.1}, r"decay is not in \[0, 1\]"),
        ({"k": 1, "chunk": 4, "decay": -0.1}, r"decay is not in \[0, 1\]"),
        ({"k": 1, "chunk": 4, "decay": np.nan}, r"decay is not in \[0, 1\]"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments, what):
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(errors.ArgumentError, match=what):
        kernels.chunked_topk_residual(x[0], x[1], **arguments)


_DIGEST = """
import hashlib, numpy as np
from fedplug import kernels
delta, residual = np.random.default_rng(0).standard_normal((2, 1_500_001)).astype(np.float32)
digest = hashlib.sha256()
for dtype in (np.float32, np.float16):
    digest.update(kernels.encode_values(delta.astype(dtype), "codebook", bits=3))
for part in kernels.chunked_topk_residual(delta, residual, 64, chunk=4096, decay=0.95):
    digest.update(part.tobytes())
digest.update(residual.tobytes())
print(kernels.simd_level(), digest.hexdigest())
"""


def test_neither_threads_nor_simd_level_change_a_bit_also_of_codebooks(has_the_same_bits_everywhere):
    has_the_same_bits_everywhere(_DIGEST)
