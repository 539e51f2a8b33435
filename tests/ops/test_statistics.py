"""Squared norms and bounds on code lengths, compared with simple computations, on arrays and tensors."""

from __future__ import annotations

import collections
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops

DTYPES = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 5000])
def test_a_sum_of_squares_is_of_all_elements(dtype, size):
    x = np.random.default_rng(size).normal(size=(size,)).astype(dtype)
    found = ops.sum_of_squares(x.reshape(-1, 5) if size == 5000 else x)
    assert found.dtype == np.float64
    assert found == pytest.approx(math.fsum(float(value) ** 2 for value in x), rel=1e-6)


@settings(max_examples=100)
@given(st.integers(0, 60), st.data())
def test_the_bits_of_a_subset_are_the_logarithm_of_how_many_there_are(size, data):
    count = data.draw(st.integers(0, size))
    found = ops.subset_bits(count, size)
    assert found == pytest.approx(math.log2(math.comb(size, count)), rel=1e-9, abs=1e-9)
    share = count / size if size else 0
    entropy = -sum(p * math.log2(p) for p in (share, 1 - share) if p > 0)
    assert found <= size * entropy + 1e-9


@settings(max_examples=100)
@given(st.integers(1, 8), st.data())
def test_the_bits_of_symbols_are_their_empirical_entropy(bits, data):
    symbols = data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=60))
    packed = ops.pack(np.array(symbols, np.uint8), bits)
    times = collections.Counter(symbols).values()
    expected = sum(count * math.log2(len(symbols) / count) for count in times)
    found = ops.symbol_bits(packed, len(symbols), bits)
    assert found == pytest.approx(expected, abs=1e-9)
    assert found <= len(symbols) * bits


@pytest.mark.needs("tensorflow")
def test_tensors_have_the_same_numbers():
    import tensorflow as tf

    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        x = rng.normal(size=(3, 1000)).astype(dtype)
        assert float(ops.sum_of_squares(tf.constant(x))) == pytest.approx(ops.sum_of_squares(x), rel=1e-6)
    for count, size in [(0, 0), (0, 7), (7, 7), (3, 7), (10**5, 10**7)]:
        found = ops.subset_bits(tf.constant(count), size)
        assert float(found) == pytest.approx(ops.subset_bits(count, size), rel=1e-9, abs=1e-6)
    for bits in (1, 3, 8):
        symbols = rng.binomial(2**bits - 1, 0.2, size=999).astype(np.uint8)
        packed = ops.pack(symbols, bits)
        found = ops.symbol_bits(tf.constant(packed), tf.constant(999), bits)
        assert float(found) == pytest.approx(ops.symbol_bits(packed, 999, bits), rel=1e-9)
    assert float(ops.symbol_bits(tf.zeros([0], tf.uint8), 0, 4)) == 0
