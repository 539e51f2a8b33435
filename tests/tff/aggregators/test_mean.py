"""Tests that the weighted mean equals its formula for every encoder and every split of the clients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug.encoders import Identity, ModelEncoder, TopK
from fedplug.errors import ConfigError
from fedplug.tff.aggregators import Mean, Update

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
