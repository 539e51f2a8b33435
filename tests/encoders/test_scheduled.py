"""Tests encoders with a schedule in place of the share of entries or the bit width."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.encoders import Pipeline, TopK
from fedplug.encoders.quantizers import QSGD
from fedplug.errors import ConfigError, PayloadError, UnknownNameError
from fedplug.ops.lowering import use_lowering
from fedplug.ops.types import ArraySpec
from fedplug.schedules import Constant, Linear

SPEC = ArraySpec((100,), np.dtype("float32"))
X = np.random.default_rng(0).standard_normal(100, np.float32)


def counts(encoder, rounds):
    """The number of entries sent in each of some rounds."""
    state = encoder.init_state(SPEC)
    return [len(encoder.encode(X, state, number)[0]["indices"]) for number in rounds]


@pytest.mark.parametrize(
    "text",
    [
        "topk(linear(0.5, 0.1, 4))",
        "randomk(linear(0.5, 0.1, 4))",
        "stc(linear(0.5, 0.1, 4))",
        "topk(linear(0.5, 0.1, 4), scope='model') | qsgd(4)",
        "topk(step([0.5, 0.4, 0.3, 0.2, 0.1], [1, 2, 3, 4]))",
    ],
)
def test_the_share_of_entries_follows_the_schedule(text):
    assert counts(fedplug.encoder(text), [0, 1, 2, 3, 4, 1000]) == [50, 40, 30, 20, 10, 10]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("qsgd(linear(8, 2, 3))", [8, 6, 4, 2, 2]), ("qsgd(step([3, 8], [2]))", [3, 3, 8, 8, 8])],
)
def test_bits_follow_the_schedule_and_every_round_can_be_read(text, expected):
    encoder = fedplug.encoder(text)
    for number, width in zip([0, 1, 2, 3, 1000], expected, strict=True):
        plain = Pipeline([QSGD(width)])
        body = encoder.to_wire(encoder.encode(X, {}, number)[0], SPEC)
        want, _ = plain.encode(X, {}, number)
        assert body[0] == width
        np.testing.assert_array_equal(body, plain.to_wire(want, SPEC))
        received = encoder.decode(encoder.from_wire(body, SPEC), SPEC)
        np.testing.assert_array_equal(received, plain.decode(want, SPEC))


@pytest.mark.needs("tensorflow")
def test_the_bits_of_all_rounds_are_one_op_in_the_graph():
    import tensorflow as tf

    encoder = fedplug.encoder("qsgd(step([8, 4, 8], [20, 30]))")

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.int32)])
    def encode(round_num):
        return encoder.to_wire(encoder.encode(tf.constant(X), {}, round_num)[0], tf.TensorSpec([100]))

    with use_lowering("fused"):
        graph = encode.get_concrete_function().graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    kinds = [node.op for body in bodies for node in body]
    assert kinds.count("Fedplug>EncodeValues") == 1


def test_bits_of_no_round_are_refused():
    body = QSGD(5).encode(X, 0)
    with pytest.raises(PayloadError, match=r"the bits of any round, \[3, 8\]"):
        fedplug.encoder("qsgd(step([3, 8], [2]))").from_wire(body, SPEC)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            "linear(8, 4, 3)",
            r"qsgd bits is 6\.6\d* in round 1 of linear\(.*a whole number from 2 to 8",
        ),
        ("step([8, 1], [10])", r"qsgd bits is 1\.0 in round 10 of step\(.*from 2 to 8"),
        ("lineal(8, 2, 3)", "did you mean 'linear'"),
        ("linear(8, 2)", "qsgd bits is 'linear\\(8, 2\\)'"),
    ],
)
def test_a_schedule_of_bits_that_are_none_is_refused(schedule, message):
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        QSGD(schedule)


def test_a_constant_schedule_is_a_number():
    assert TopK(Constant(0.1)) == TopK(0.1)
    assert TopK("linear(0.1, 0.1, 0)") == TopK(Linear(0.1, 0.1, 0))


@pytest.mark.parametrize("schedule", ["linear(0.1, 0, 3)", "step([0.1, 1.5], [3])"])
def test_a_schedule_that_leaves_the_range_of_fractions_is_refused(schedule):
    with pytest.raises(
        ConfigError, match=r"topk fraction in round \d+ of .* is .*; it must be a number above 0 and"
    ):
        TopK(schedule)
