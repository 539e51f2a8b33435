"""Tests the mean of memories against PP2 of its paper in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug.encoders import ModelEncoder
from fedplug.errors import ConfigError
from fedplug.tff.aggregators import MemoryMean, Update

SPECS = [tf.TensorSpec([100], tf.float32), tf.TensorSpec([3], tf.float64)]
CLIENTS = 4


def rounds(expression, number=6, seed=0):
    """The updates of sampled clients, their payloads, and the memories of all clients afterwards."""
    model, rng = ModelEncoder(expression, SPECS), np.random.default_rng(seed)
    states = [model.init_state() for _ in range(CLIENTS)]
    for round_num in range(number):
        sent = []
        for client in rng.choice(CLIENTS, rng.integers(0, CLIENTS + 1), replace=False):
            xs = [tf.constant(rng.normal(size=spec.shape), spec.dtype) for spec in SPECS]
            buffers, states[client] = model.encode(xs, states[client], tf.constant(round_num))
            sent.append(Update(model, buffers))
        yield sent, [np.mean([s[i]["memory"] for s in states], axis=0) for i in range(len(SPECS))]


def test_it_is_the_mean_of_all_memories_and_of_the_senders_differences():
    aggregator = MemoryMean(CLIENTS)
    state = aggregator.init_state(SPECS)
    before = [np.zeros(spec.shape) for spec in SPECS]
    for sent, after in rounds("ef21('topk(0.1)')"):
        accumulator = aggregator.zero(SPECS)
        for update in sent:
            accumulator = aggregator.accumulate(accumulator, update, tf.constant(7.0))
        got, state = aggregator.finish(accumulator, state)
        divisor = max(len(sent), 1)
        for place, value in enumerate(got):
            total = sum((update.decode()[place].numpy() for update in sent), np.zeros(SPECS[place].shape))
            np.testing.assert_allclose(value, before[place] + total / divisor, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(state["memory"][place], after[place], rtol=1e-5, atol=1e-5)
        before = after


@pytest.mark.parametrize("clients", [0, 2.5])
def test_a_number_of_clients_out_of_range_is_refused(clients):
    with pytest.raises(ConfigError, match="it must be"):
        MemoryMean(clients)
