"""Approximate top-k: how near to k it comes, and what it does where the sample misleads it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.encoders import Pipeline, TopK
from fedplug.encoders.sparsifiers.approx_topk import ApproxTopK
from fedplug.errors import ConfigError

ROUND = tf.constant(3)


def encoded(sparsifier, x):
    x, encoder = tf.constant(x), Pipeline([sparsifier])
    payload, state = encoder.encode(x, encoder.init_state(tf.TensorSpec(x.shape, x.dtype)), ROUND)
    return payload["indices"].numpy(), state["residual"].numpy()


@pytest.mark.parametrize("draw", ["standard_normal", "standard_cauchy"])
def test_it_sends_about_k_entries_whatever_the_distribution(draw):
    x = getattr(np.random.default_rng(0), draw)(100_000).astype(np.float32)
    counts = [len(encoded(ApproxTopK(0.01, sample=0.1, seed=seed), x)[0]) for seed in range(10)]
    assert 0.9 < np.mean(counts) / 1000 < 1.1
    assert 0.6 < min(counts) / 1000 <= max(counts) / 1000 < 1.4


def test_what_it_sends_is_larger_than_what_it_keeps():
    x = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    indices, residual = encoded(ApproxTopK(0.05), x)
    assert np.abs(x[indices]).min() >= np.abs(residual).max()


@settings(deadline=None)
@given(st.integers(0, 300), st.floats(0.01, 1), st.floats(0.01, 1), st.integers(0, 9))
def test_it_never_sends_more_than_twice_k_nor_zeros(size, fraction, sample, seed):
    x = np.random.default_rng(seed).integers(-2, 3, size).astype(np.float32)
    indices, residual = encoded(ApproxTopK(fraction, sample=sample), x)
    k = TopK(fraction).sparsity.of_size(size)
    assert len(indices) <= 2 * k
    assert np.all(x[indices] != 0)
    sent = np.zeros_like(x)
    sent[indices] = x[indices]
    np.testing.assert_array_equal(sent + residual, x)


def test_where_everything_passes_the_exact_k_are_taken():
    x = np.full(1000, 2.0, np.float32)
    np.testing.assert_array_equal(encoded(ApproxTopK(0.01), x)[0], np.arange(10))


def test_with_a_sample_of_everything_it_is_top_k():
    x = np.random.default_rng(2).standard_normal(500).astype(np.float32)
    np.testing.assert_array_equal(encoded(ApproxTopK(0.1, sample=1), x)[0], encoded(TopK(0.1), x)[0])


@pytest.mark.parametrize(
    "arguments",
    [
        {"fraction": 0},
        {"fraction": 0.1, "sample": 0},
        {"fraction": 0.1, "sample": 1.1},
        {"fraction": 0.1, "seed": -1},
        {"fraction": 0.1, "error_feedback": 1},
    ],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ConfigError, match="approx_topk"):
        ApproxTopK(**arguments)
