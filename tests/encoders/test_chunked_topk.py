"""Tests top-k of chunks, and residuals that decay: entries sent and kept, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.encoders import TopK
from fedplug.errors import ConfigError

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
def test_a_wrong_argument_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        TopK(**arguments)
