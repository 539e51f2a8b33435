"""Tests means against their formulas in NumPy, and runs the aggregator suite."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug.encoders import Identity, ModelEncoder, TopK
from fedplug.errors import ConfigError
from fedplug.testing import AggregatorSuite
from fedplug.tff.aggregators import Mean, MemoryMean, Sum, Update


class TestMean(AggregatorSuite):
    def make_aggregator(self):
        return Mean()


class TestUniformMean(AggregatorSuite):
    def make_aggregator(self):
        return Mean(weights="uniform")


class TestSum(AggregatorSuite):
    weights_are_relative = False

    def make_aggregator(self):
        return Sum()


class TestMemoryMean(AggregatorSuite):
    def make_aggregator(self):
        return MemoryMean(5)


SPECS = [tf.TensorSpec([100], tf.float32), tf.TensorSpec([3], tf.float32)]


def updates(model: ModelEncoder, count: int) -> list[Update]:
    rng = np.random.default_rng(0)
    result = []
    for _ in range(count):
        xs = [tf.constant(rng.normal(size=spec.shape).astype(np.float32)) for spec in SPECS]
        buffers, _ = model.encode(xs, model.init_state(), tf.constant(0))
        result.append(Update(model, buffers))
    return result


@pytest.mark.parametrize("encoder", [Identity(), TopK(0.1)])
def test_it_is_the_weighted_mean_of_the_decoded_payloads(encoder: object) -> None:
    model, weights = ModelEncoder(encoder, SPECS), [1.0, 5.0, 2.0]
    accumulator = Mean().zero(SPECS)
    clients = updates(model, 3)
    for update, weight in zip(clients, weights, strict=True):
        accumulator = Mean().accumulate(accumulator, update, tf.constant(weight))
    means, state = Mean().finish(accumulator, ())
    assert state == ()
    for i, mean in enumerate(means):
        expected = sum(w * u.decode()[i].numpy() for w, u in zip(weights, clients, strict=True)) / sum(
            weights
        )
        np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-6)


def test_uniform_weights_are_declared() -> None:
    assert Mean().weights_by_examples
    assert not Mean(weights="uniform").weights_by_examples
    assert Mean.from_config({"weights": "uniform"}) == Mean("uniform")


def test_unknown_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of examples, uniform"):
        Mean(weights="size")


OF_MEMORY = [tf.TensorSpec([100], tf.float32), tf.TensorSpec([3], tf.float64)]
CLIENTS = 4


def rounds(expression, number=6, seed=0):
    """The updates of sampled clients, their payloads, and the memories of all clients afterwards."""
    model, rng = ModelEncoder(expression, OF_MEMORY), np.random.default_rng(seed)
    states = [model.init_state() for _ in range(CLIENTS)]
    for round_num in range(number):
        sent = []
        for client in rng.choice(CLIENTS, rng.integers(0, CLIENTS + 1), replace=False):
            xs = [tf.constant(rng.normal(size=spec.shape), spec.dtype) for spec in OF_MEMORY]
            buffers, states[client] = model.encode(xs, states[client], tf.constant(round_num))
            sent.append(Update(model, buffers))
        yield sent, [np.mean([s[i]["memory"] for s in states], axis=0) for i in range(len(OF_MEMORY))]


def test_it_is_the_mean_of_all_memories_and_of_the_senders_differences():
    aggregator = MemoryMean(CLIENTS)
    state = aggregator.init_state(OF_MEMORY)
    before = [np.zeros(spec.shape) for spec in OF_MEMORY]
    for sent, after in rounds("ef21('topk(0.1)')"):
        accumulator = aggregator.zero(OF_MEMORY)
        for update in sent:
            accumulator = aggregator.accumulate(accumulator, update, tf.constant(7.0))
        got, state = aggregator.finish(accumulator, state)
        divisor = max(len(sent), 1)
        for place, value in enumerate(got):
            total = sum((update.decode()[place].numpy() for update in sent), np.zeros(OF_MEMORY[place].shape))
            np.testing.assert_allclose(value, before[place] + total / divisor, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(state["memory"][place], after[place], rtol=1e-5, atol=1e-5)
        before = after


@pytest.mark.parametrize("clients", [0, 2.5])
def test_a_number_of_clients_out_of_range_is_refused(clients):
    with pytest.raises(ConfigError, match="it must be"):
        MemoryMean(clients)
