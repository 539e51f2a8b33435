"""Tests deep gradient compression against the paper's algorithm in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.encoders import Pipeline, TopK
from fedplug.encoders.sparsifiers.dgc import DGC
from fedplug.errors import ConfigError

SPEC = tf.TensorSpec([40], tf.float64)


def updates(rounds=12):
    return np.random.default_rng(0).standard_normal((rounds, 40))


def run(encoder, rounds=12, start=0):
    """The decoded tensor of each round, and the last state."""
    state, sent = encoder.init_state(SPEC), []
    for number, update in enumerate(updates(rounds)):
        payload, state = encoder.encode(tf.constant(update), state, tf.constant(start + number))
        sent.append(encoder.decode(payload, SPEC).numpy())
    return np.array(sent), state


@settings(deadline=None)
@given(st.integers(1, 40), st.sampled_from([0.0, 0.5, 0.9]), st.integers(0, 3))
def test_it_is_the_algorithm_of_the_paper(count, momentum, warmup_rounds):
    dgc = DGC(count / 40, momentum=momentum, warmup_rounds=warmup_rounds)
    sent, state = run(Pipeline([dgc]))
    u, v = np.zeros(40), np.zeros(40)
    for number, update in enumerate(updates()):
        u = momentum * u + update
        v = v + u
        k = dgc.sparsity.in_each_round(40)[min(number, warmup_rounds)]
        mask = np.isin(np.arange(40), np.argsort(-np.abs(v), kind="stable")[:k])
        np.testing.assert_allclose(sent[number], np.where(mask, v, 0), atol=1e-12)
        u, v = np.where(mask, 0, u), np.where(mask, 0, v)
    np.testing.assert_allclose(state["momentum"], u, atol=1e-12)
    np.testing.assert_allclose(state["residual"], v, atol=1e-12)


def test_without_momentum_it_sends_the_entries_of_topk():
    dgc, topk = Pipeline([DGC(0.1, momentum=0)]), Pipeline([TopK(0.1)])
    np.testing.assert_array_equal(run(dgc)[0], run(topk)[0])


def test_the_warm_up_goes_from_a_quarter_to_the_fraction_as_in_the_paper():
    counts = DGC(0.001, warmup_rounds=4).sparsity.in_each_round(10**6)
    shares = [count / 10**6 for count in counts]
    assert shares == pytest.approx([0.25, 0.0625, 0.0158, 0.004, 0.001], rel=0.02)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"fraction": 0}, "dgc fraction is 0"),
        ({"fraction": 0.1, "momentum": 1}, "dgc momentum is 1; it must be a number of at least 0 and"),
        ({"fraction": 0.1, "warmup_rounds": -1}, "dgc warmup_rounds is -1"),
    ],
)
def test_a_wrong_argument_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        DGC(**config)
