"""Encoders whose share of entries depends on the round: a schedule in place of a number."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import fedplug
from fedplug.encoders import TopK
from fedplug.encoders.dgc import DGC
from fedplug.errors import ConfigError
from fedplug.schedules import Constant, Linear

SPEC = tf.TensorSpec([100], tf.float32)
X = tf.constant(np.random.default_rng(0).normal(size=100), tf.float32)


def counts(encoder, rounds):
    """How many entries are sent in each of some rounds, in a graph that takes the round as an argument."""

    @tf.function(autograph=False)
    def sent(round_num):
        payload, _ = encoder.encode(X, encoder.init_state(SPEC), round_num)
        return tf.size(payload["indices"])

    return [int(sent(tf.constant(number))) for number in rounds]


@pytest.mark.parametrize(
    "text",
    [
        "topk(linear(0.5, 0.1, 4))",
        "randomk(linear(0.5, 0.1, 4))",
        "stc(linear(0.5, 0.1, 4))",
        "dgc(linear(0.5, 0.1, 4))",
        "topk(linear(0.5, 0.1, 4), scope='model') | qsgd(4)",
        "topk(step([0.5, 0.4, 0.3, 0.2, 0.1], [1, 2, 3, 4]))",
    ],
)
def test_the_share_of_entries_follows_the_schedule(text):
    assert counts(fedplug.encoder(text), [0, 1, 2, 3, 4, 1000]) == [50, 40, 30, 20, 10, 10]


def test_it_depends_on_the_round_alone_so_that_a_restarted_run_goes_on():
    assert counts(fedplug.encoder("topk(linear(0.5, 0.1, 4))"), [3, 1, 3]) == [20, 40, 20]


@pytest.mark.parametrize("text", ["topk(cosine(0.1, 0.01, 20))", "dgc(step([0.1, 0.01], [5]))"])
def test_a_schedule_goes_through_json_and_comes_back_equal(text):
    encoder = fedplug.encoder(text)
    config = json.loads(json.dumps(fedplug.to_config(encoder)))
    assert fedplug.from_config(config) == encoder
    assert fedplug.encoder(repr(encoder)) == encoder


def test_a_constant_schedule_is_a_number():
    assert TopK(Constant(0.1)) == TopK(0.1)
    assert TopK("linear(0.1, 0.1, 0)") == TopK(Linear(0.1, 0.1, 0))


@pytest.mark.parametrize("schedule", ["linear(0.1, 0, 3)", "step([0.1, 1.5], [3])"])
def test_a_schedule_that_leaves_the_range_of_fractions_is_refused(schedule):
    with pytest.raises(ConfigError, match=r"topk fraction is .*; it must be above 0 and at most 1"):
        TopK(schedule)


def test_the_warm_up_of_dgc_is_a_schedule():
    warm = DGC("exponential(0.25118864315095796, 0.001, 4)").entries(tf.TensorSpec([10**6], tf.float32))
    assert warm == DGC(0.001, warmup_rounds=4).entries(tf.TensorSpec([10**6], tf.float32))
    with pytest.raises(ConfigError, match="both warmup_rounds and a schedule"):
        DGC(Linear(0.1, 0.01, 3), warmup_rounds=2)
