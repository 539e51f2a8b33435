"""Tests top-k (also of chunks), random-k and STC: entries sent and kept, bytes, and refused arguments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedplug
from fedplug.encoders import Pipeline, TopK
from fedplug.encoders.pipeline.pipeline import STC
from fedplug.encoders.sparsifiers import RandomK
from fedplug.errors import ConfigError
from fedplug.ops.types import ArraySpec

vectors = hnp.arrays(np.float32, st.integers(1, 60), elements=st.integers(-9, 9).map(float))


def spec_of(x):
    return ArraySpec(x.shape, x.dtype)


def encode(encoder, x, round_num=3):
    return encoder.encode(x, encoder.init_state(spec_of(x)), round_num)


@settings(deadline=None)
@given(vectors, st.integers(1, 70), st.integers(0, 99))
def test_randomk_sends_one_entry_of_each_run_times_the_length_of_the_run(x, count, number):
    encoder = Pipeline([RandomK(count=count)])
    payload, _ = encode(encoder, x, number)
    got, count = encoder.decode(payload, spec_of(x)), min(count, len(x))
    begins = np.arange(count + 1) * len(x) // count
    assert len(payload["indices"]) == count
    for index, (begin, end) in zip(payload["indices"], pairwise(begins), strict=True):
        run = np.zeros_like(x[begin:end])
        run[index - begin] = x[index] * (end - begin)
        np.testing.assert_array_equal(got[begin:end], run)


def test_randomk_sends_every_entry_equally_often():
    sparsifier, n, k, rounds = RandomK(count=7), 30, 7, 4000
    x = np.zeros(n, np.float32)
    begins = np.arange(k + 1) * n // k
    expected = np.repeat(rounds / np.diff(begins), np.diff(begins))
    indices = [sparsifier.select(x, {}, number).indices for number in range(rounds)]
    counts = np.bincount(np.concatenate(indices), minlength=n)
    chi_squared = np.sum((counts - expected) ** 2 / expected)
    assert chi_squared < 60  # 23 degrees of freedom: exceeded once in 40,000 runs


def test_randomk_has_the_variance_that_is_documented():
    x = np.random.default_rng(0).standard_normal(1000)
    encoder = Pipeline([RandomK(count=100)])
    errors = [np.sum((encoder.decode(encode(encoder, x, r)[0], spec_of(x)) - x) ** 2) for r in range(200)]
    assert np.mean(errors) == pytest.approx((1000 / 100 - 1) * np.sum(x**2), rel=0.05)


def test_all_clients_send_the_same_random_entries_in_a_round_and_others_in_the_next():
    first, second = np.random.default_rng(0).standard_normal((2, 500))
    encoder, other = Pipeline([RandomK(0.1)]), Pipeline([RandomK(0.1, seed=1)])
    indices = [encode(encoder, x)[0]["indices"] for x in (first, second)]
    np.testing.assert_array_equal(*indices)
    assert (encode(encoder, first, 4)[0]["indices"] != indices[0]).any()
    assert (encode(other, first)[0]["indices"] != indices[0]).any()


def test_a_randomk_payload_takes_ten_bytes_and_the_values():
    x = np.zeros(1000, np.float32)
    encoder = Pipeline([RandomK(0.1)])
    assert len(encoder.to_wire(encode(encoder, x)[0], spec_of(x))) == 1 + 1 + 8 + 4 * 100


@settings(deadline=None)
@given(vectors, st.integers(1, 70))
def test_stc_sends_the_mean_magnitude_of_the_kept_entries_with_their_signs(x, count):
    encoder = STC(count=count)
    payload, _ = encode(encoder, x)
    got, kept = encoder.decode(payload, spec_of(x)), payload["indices"]
    scale = np.float32(np.abs(x[kept]).mean(dtype=np.float64))
    expected = np.zeros_like(x)
    expected[kept] = np.where(x[kept] >= 0, scale, -scale)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["randomk", "stc", "topk"])
def test_a_fraction_or_a_count_is_asked_for(name):
    with pytest.raises(ConfigError, match="takes either a fraction or a count"):
        fedplug.encoder(name)


@pytest.mark.parametrize(
    ("fraction", "size", "entries"),
    [
        (0.01, 10000, 100),
        (0.01, 49, 1),
        (0.01, 151, 2),
        (0.4, 800, 320),
        (1.0, 7, 7),
        (1e-9, 5, 1),
        (0.5, 0, 0),
    ],
)
def test_a_fraction_keeps_its_share_of_entries_and_at_least_one(fraction, size, entries):
    assert TopK(fraction).sparsity.of_size(size) == entries


def test_one_percent_of_a_large_tensor_takes_about_five_bytes_an_entry():
    x = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    encoder = Pipeline([TopK(0.01)])
    assert 5.0 < len(encoder.to_wire(encode(encoder, x)[0], spec_of(x))) / 1000 < 5.1


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"fraction": 0.1, "count": 3},
        {"fraction": 0.0},
        {"fraction": 1.1},
        {"fraction": float("nan")},
        {"fraction": "0.1"},
        {"fraction": True},
        {"count": 0},
        {"count": 2.5},
        {"fraction": 0.1, "error_feedback": 1},
    ],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ConfigError, match="topk"):
        TopK(**arguments)


# Chunks, and residuals that decay ---------------------------------------------------------------------------

SPARSE_LOCO = "topk(count=64, chunk=4096, decay=0.95) | codebook(2) | rans"


def sent_and_kept(expression, x, rounds=3):
    """The decoded tensors for the same update in every round, and the residual after each."""
    codec, state = fedplug.codec(expression), None
    for round_num in range(rounds):
        payload, state = codec.encode(x, state, round_num)
        yield fedplug.decode(payload), state["residual"]


@pytest.mark.parametrize(
    ("arguments", "size", "entries"),
    [
        ("count=3, chunk=10", 95, 9 * 3 + 3),
        ("count=7, chunk=10", 95, 9 * 7 + 5),
        ("0.25, chunk=8", 20, 2 + 2 + 2),
        ("0.01, chunk=8", 20, 3),
        ("0.25, chunk=4096", 100, 25),
        ("count=64, chunk=4096", 100, 64),
    ],
)
def test_count_and_fraction_are_of_each_chunk(arguments, size, entries):
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    (sent, _), *_ = sent_and_kept(f"topk({arguments})", x, rounds=1)
    assert np.count_nonzero(sent) == entries


def test_with_scope_model_every_residual_decays():
    model = {"a": np.float32([5, 3]), "b": np.float32([4, 1])}
    codec = fedplug.codec("topk(count=1, decay=0.5, scope='model')", min_size=0)
    _, state = codec.encode_model(model)
    _, state = codec.encode_model({name: np.zeros_like(x) for name, x in model.items()}, state, 1)
    np.testing.assert_array_equal(state["a/residual"], [0, 1.5])
    np.testing.assert_array_equal(state["b/residual"], [0, 0.5])  # the largest, 2, was sent


def test_sparse_loco_takes_less_than_nine_bits_an_entry():
    x = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    entries = 64 * 245
    packed, _ = fedplug.codec(SPARSE_LOCO.removesuffix(" | rans")).encode(x)
    coded, _ = fedplug.codec(SPARSE_LOCO).encode(x)
    assert 9.4 < 8 * len(packed) / entries < 9.6
    assert 8.0 < 8 * len(coded) / entries < 9.1


def test_a_residual_that_the_quantizer_s_error_would_overflow_is_refused_and_the_state_kept():
    codec = fedplug.codec("topk(count=10, chunk=10) | codebook(1)")
    first = np.full(10, 1.0, np.float32)
    _, state = codec.encode(first)
    before = state["residual"].copy()
    x = np.full(10, -3e38, np.float32)
    x[0] = 3e38  # all in one bin, whose mean differs by more than the float32 range
    with pytest.raises(fedplug.errors.NonFiniteError, match="codebook"):
        codec.encode(x, state, 1)
    np.testing.assert_array_equal(state["residual"], before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 1, "chunk": 0}, "topk chunk is 0; it must be a whole number from 1 to"),
        ({"count": 1, "chunk": 2.0}, "topk chunk is 2.0"),
        ({"count": 1, "decay": 0}, "topk decay is 0; it must be a number above 0 and at most 1"),
        ({"count": 1, "decay": 1.5}, "topk decay is 1.5"),
        ({"count": 1, "decay": float("nan")}, "topk decay is nan"),
        ({"count": 1, "decay": 0.5, "error_feedback": False}, "without error feedback there is none"),
        ({"count": 1, "chunk": 8, "scope": "model"}, "give one of the two"),
    ],
)
def test_wrong_arguments_of_chunks_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        TopK(**arguments)
