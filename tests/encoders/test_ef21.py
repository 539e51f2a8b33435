"""Tests EF21 against its paper's algorithm in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.errors import CapabilityError, ConfigError

SIZE = 40


def updates(rounds, seed=0):
    return np.random.default_rng(seed).normal(size=(rounds, SIZE)).astype(np.float32)


def largest(x, k):
    """Keeps the k entries of largest magnitude and sets the others to zero."""
    kept = np.zeros_like(x)
    places = np.argsort(-np.abs(x), kind="stable")[:k]
    kept[places] = x[places]
    return kept


def encoded(encoder, xs):
    """The decoded tensor of each round, and the last state."""
    codec, state, decoded = fedplug.codec(encoder), None, []
    for round_num, x in enumerate(xs):
        payload, state = codec.encode(x, state, round_num)
        decoded.append(fedplug.decode(payload))
    return np.array(decoded), state


def test_ef21_is_algorithm_2_of_its_paper_bit_for_bit():
    xs = updates(30)
    sent, state = encoded("ef21('topk(count=4)')", xs)
    g = np.zeros(SIZE, np.float32)
    for x, message in zip(xs, sent, strict=True):
        c = largest(x - g, 4)
        g = g + c
        np.testing.assert_array_equal(message, c)
    np.testing.assert_array_equal(state["memory"], g)


def test_a_zero_update_leaves_nothing_to_send():
    """Error feedback, in contrast, would continue to send as much as before."""
    sent, _ = encoded("ef21('topk(count=4)')", [updates(1)[0]] * 12)
    np.testing.assert_array_equal(sent.sum(0), updates(1)[0])
    assert not sent[10:].any()


def test_small_tensors_are_differences_too():
    codec = fedplug.codec("ef21('topk(count=4)')")
    x = {"kernel": np.ones(100, np.float32), "bias": np.ones(3, np.float32), "step": np.ones(2, np.int32)}
    _, state = codec.encode_model(x)
    payloads, state = codec.encode_model(x, state, 1)
    np.testing.assert_array_equal(fedplug.decode(payloads["bias"]), np.zeros(3))
    np.testing.assert_array_equal(state["bias/memory"], np.ones(3))
    np.testing.assert_array_equal(fedplug.decode(payloads["step"]), np.ones(2))


def test_its_metrics_are_of_the_update_and_not_of_the_difference():
    codec, metrics = fedplug.codec("ef21('topk(count=25)')", min_size=0), fedplug.TensorMetrics()
    x, state = {"kernel": np.ones(100, np.float32)}, None
    for number in range(3):
        _, state = codec.encode_model(x, state, number)
    codec.encode_model(x, state, 3, metrics=metrics)
    assert metrics.value()["kernel"]["nmse"] == 0


def test_error_feedback_inside_is_switched_off():
    assert fedplug.encoder("ef21('stc(0.1)')") == fedplug.encoder("ef21('stc(0.1, error_feedback=False)')")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("ef21('qsgd(4)')", r"unbiased.*use topk\("),
        ("ef21('randomk(0.1)')", "unbiased"),
        ("ef21('ef21(\"topk(0.1)\")')", "a state of its own"),
    ],
)
def test_an_encoder_that_its_guarantee_does_not_cover_is_refused(expression, message):
    with pytest.raises(CapabilityError, match=message):
        fedplug.encoder(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "ef21('budget(\"topk(0.1)\", 1000)')",
        "budget('ef21(\"topk(0.1)\")', 1000)",
    ],
)
def test_arguments_out_of_range_are_refused(expression):
    with pytest.raises((ConfigError, CapabilityError)):
        fedplug.encoder(expression)


def test_a_receiver_that_keeps_no_memory_can_refuse_it():
    with pytest.raises(CapabilityError, match="sends differences from a memory"):
        fedplug.codec("ef21('topk(0.1)')").require_updates()
    codec = fedplug.codec("topk(0.1)")
    assert codec.require_updates() is codec
