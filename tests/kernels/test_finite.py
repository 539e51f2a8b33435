"""Checks for finite values, compared with NumPy; read-only and unaligned inputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels, wire

DTYPES = [np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]


@given(st.sampled_from(DTYPES), st.binary(max_size=64))
@settings(deadline=None, max_examples=400)
def test_any_bits_are_judged_as_numpy_does(dtype, data):
    values = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = np.isfinite(values.astype(np.float64)).all()
    assert kernels.all_finite(values) == expected


def test_other_types_than_floats_are_refused():
    with pytest.raises(errors.ArgumentError, match="values has dtype int32; it must be float32, float64"):
        kernels.all_finite(np.zeros(3, np.int32))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("offset", [0, 1, 4])
def test_bytes_are_values_wherever_they_lie(dtype, offset):
    values = np.random.default_rng(0).standard_normal(300_001).astype(dtype)
    data = np.zeros(values.nbytes + 24, np.uint8)
    begin = -data.ctypes.data % 8 + offset
    data[begin : begin + values.nbytes] = values.view(np.uint8)
    data = data[begin : begin + values.nbytes]
    out = np.empty_like(values)
    assert kernels.finite_from_bytes(data, dtype, out=out) is out
    found = kernels.finite_from_bytes(data, dtype)
    assert found.tobytes() == out.tobytes() == values.tobytes()
    assert found.flags.aligned
    assert np.shares_memory(found, data) == (offset % dtype.itemsize == 0)
    assert found.flags.writeable != np.shares_memory(found, data)

    for place in (0, 4096, 300_000):
        changed = values.copy()
        changed[place] = np.nan
        data[:] = changed.view(np.uint8)
        for where in (None, out):
            with pytest.raises(errors.PayloadError, match="a raw value is NaN or infinite"):
                kernels.finite_from_bytes(data, dtype, out=where)


def test_bytes_that_are_not_the_values_wanted_are_refused():
    data = np.zeros(12, np.uint8)
    with pytest.raises(errors.PayloadError, match="12 bytes are no whole numbers of 8 bytes each"):
        kernels.finite_from_bytes(data, np.dtype(np.float64))
    with pytest.raises(errors.ArgumentError, match="out has 4 elements of float32; it must have 3"):
        kernels.finite_from_bytes(data, np.dtype(np.float32), out=np.zeros(4, np.float32))
    with pytest.raises(errors.ArgumentError, match="out has 3 elements of int32; it must have 3 of float32"):
        kernels.finite_from_bytes(data, np.dtype(np.float32), out=np.zeros(3, np.int32))
    with pytest.raises(errors.ArgumentError, match="data and out share memory"):
        kernels.finite_from_bytes(data, np.dtype(np.float32), out=data.view(np.float32))
    for dtype in (np.dtype(np.int32), np.dtype("S0")):
        with pytest.raises(errors.ArgumentError, match="not a floating dtype"):
            kernels.finite_from_bytes(data, dtype)


def test_parts_of_a_container_are_read_where_they_lie():
    """A code may begin at any address; values must be aligned to their dtype."""
    code = kernels.encode_values(np.float32([1, -2, 3]), "sign")
    packed = wire.frame([b"x", code], "sign/1", "float32", (3,))
    body = kernels.unframe(packed)[3]
    expected = kernels.decode_values(code, 3, "sign")
    np.testing.assert_array_equal(kernels.decode_values(body[1:], 3, "sign"), expected)

    raw = np.zeros(13, np.uint8)
    with pytest.raises(errors.ArgumentError, match="values is not aligned to its dtype; pass a copy of it"):
        kernels.all_finite(raw[1:].view(np.float32))
