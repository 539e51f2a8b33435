"""fedplug.kernels.all_finite against NumPy; and read-only and unaligned parts of a buffer as inputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

DTYPES = [np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]


@given(st.sampled_from(DTYPES), st.binary(max_size=64))
@settings(deadline=None, max_examples=400)
def test_any_bits_are_judged_as_numpy_does(dtype, data):
    values = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = np.isfinite(values.astype(np.float64)).all()
    assert kernels.all_finite(values) == expected


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(dtype, bad):
    values = np.random.default_rng(0).standard_normal((3, 400_001)).astype(dtype)
    assert kernels.all_finite(values)
    for place in [(0, 0), (1, 4096), (2, 400_000)]:
        changed = values.copy()
        changed[place] = bad
        assert not kernels.all_finite(changed)


def test_what_is_no_float_is_refused():
    with pytest.raises(errors.ArgumentError, match="values has dtype int32; it must be float32, float64"):
        kernels.all_finite(np.zeros(3, np.int32))


def test_parts_of_a_container_are_read_where_they_lie():
    """The bytes of a code may begin anywhere; values that do not lie as their dtype asks for are refused."""
    code = kernels.encode_values(np.float32([1, -2, 3]), "sign")
    packed = kernels.pack_container([b"x", code], "sign/1", "float32", (3,))
    body = kernels.read_container(packed)[3]
    expected = kernels.decode_values(code, 3, "sign")
    np.testing.assert_array_equal(kernels.decode_values(body[1:], 3, "sign"), expected)

    raw = np.zeros(13, np.uint8)
    with pytest.raises(errors.ArgumentError, match="values is not aligned to its dtype; pass a copy of it"):
        kernels.all_finite(raw[1:].view(np.float32))
