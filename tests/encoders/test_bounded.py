"""Tests the error-bounded quantizer: its exact bound for all finite values, and values sent unchanged."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import errors
from fedplug.encoders.quantizers import Bounded

DTYPES = {"float32": "<u4", "float64": "<u8", "float16": "<u2", "bfloat16": "<u2"}
BOUNDS = st.one_of(st.sampled_from([0.25, 1e-2, 1e-3, 1e-4, 2**-15]), st.floats(2**-15, 0.25))


def of_dtype(name):
    return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)


def any_finite(name):
    """Generates vectors of arbitrary finite numbers: denormals, both zeros, the largest."""
    dtype = of_dtype(name)

    def finite(data):
        x = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
        with np.errstate(invalid="ignore"):  # signaling NaNs warn on some processors
            return np.where(np.isfinite(x), x, np.zeros_like(x))

    return st.binary(max_size=20 * dtype.itemsize).map(finite)


def close_together(name):
    """Generates vectors of numbers a few ulps apart, around any number: a very narrow range."""
    dtype = of_dtype(name)
    largest = int(np.array(ml_dtypes.finfo(dtype).max, dtype).view(DTYPES[name]))

    def near(base_and_steps):
        base, steps = base_and_steps
        bits = np.clip(base + np.array(steps, np.int64), 0, largest) if steps else np.array([], np.int64)
        return bits.astype(DTYPES[name]).view(dtype)

    return st.tuples(st.integers(0, min(largest, 2**62)), st.lists(st.integers(0, 5000), max_size=20)).map(
        near
    )


def sent(x, rel):
    quantizer = Bounded(rel)
    return quantizer.decode(quantizer.encode(x, 0), x.size, x.dtype)


def expect_bounded(x, rel):
    y = sent(x, rel)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    if x.size:
        lowest, highest = Fraction(float(x.min())), Fraction(float(x.max()))
        limit = Fraction(rel) * (highest - lowest)
        assert all(abs(Fraction(float(a)) - Fraction(float(b))) <= limit for a, b in zip(x, y, strict=True))
        assert x.min() <= y.min()
        assert y.max() <= x.max()


@pytest.mark.parametrize("name", DTYPES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), rel=BOUNDS)
def test_no_finite_number_is_further_off_than_the_bound(name, data, rel):
    expect_bounded(data.draw(st.one_of(any_finite(name), close_together(name))), rel)


@pytest.mark.parametrize("value", [0.3, -7e4, 1e-40, 0.0])
def test_equal_values_are_exact(value):
    x = np.full(1500, value, np.float32)
    np.testing.assert_array_equal(sent(x, 0.01), x)


def test_zeros_among_others_stay_zeros():
    x = np.float32([0.3, 0, -5, 0, 11])
    assert (sent(x, 0.01)[[1, 3]] == 0).all()


@pytest.mark.parametrize("rel", [1e-2, 1e-3, 1e-4])
def test_the_step_is_as_wide_as_the_bound_allows(rel):
    x = np.linspace(-1, 1, 200_001, dtype=np.float32)
    assert len(np.unique(sent(x, rel))) <= 1.01 / (2 * rel) + 2


@pytest.mark.parametrize(("rel", "bits"), [(0.25, 3), (0.01, 7), (1 / 253, 8), (1 / 254, 9), (2**-15, 16)])
def test_its_bytes_are_as_documented(rel, bits):
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    code = Bounded(rel).encode(x, 0)
    assert len(code) == 4 + 2 * 4 + 125 * bits
    start, number, of_each = Bounded(rel).symbols(1000, x.dtype)
    assert (start, number, of_each) == (12, 1000, bits)
    assert Bounded.from_payload(code).encode(x, 0).tobytes() == code.tobytes()


def test_the_bound_holds_for_the_entries_of_the_sparsifier():
    x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    codec = fedplug.codec("topk(0.1, error_feedback=False) | bounded(0.001) | rans")
    y = fedplug.decode(codec.encode(x)[0])
    chosen = y != 0
    assert chosen.sum() == 1000
    assert np.abs(y - x)[chosen].max() <= 0.001 * np.ptp(x[chosen])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounded(0), "bounded rel is 0; it must be a number from 2\\^-15 to 1/4"),
        (lambda: Bounded(0.3), "bounded rel is 0.3"),
        (lambda: Bounded(0.1, error_feedback=1), "bounded error_feedback is 1"),
    ],
)
def test_a_wrong_argument_is_refused(make, message):
    with pytest.raises(errors.ConfigError, match=message):
        make()
