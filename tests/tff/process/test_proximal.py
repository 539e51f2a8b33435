"""Tests FedProx: the proximal term, and its combination with error feedback."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.process import build_weighted_fed_avg
from fedplug.tff.process.learning.proximal import ProximalOptimizer

pytestmark = pytest.mark.usefixtures("inprocess")

RATE, STEPS = 0.1, 3


def line():
    """The model ``w x``, from w = 0."""
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None, 1], tf.float32)),
    )


@pytest.fixture(scope="module")
def ones():
    """A client whose examples have y = x = 1, with one step each."""
    return tf.data.Dataset.from_tensor_slices((np.ones((STEPS, 1), np.float32),) * 2).batch(1)


def by_hand(pull, start=0.0):
    """The result of gradient descent on ``(w - 1)^2`` with the additional gradient ``pull (w - start)``."""
    w = start
    for _ in range(STEPS):
        w -= RATE * (2 * (w - 1) + pull * (w - start))
    return w


def test_clients_are_pulled_to_the_model_of_the_round_as_the_paper_says(ones, sgd):
    process = build_weighted_fed_avg(line, ProximalOptimizer(sgd, 2.0))
    first = process.next(process.initialize(), [ones], [process.initialize_client()])
    w = first["state"].global_model_weights.trainable[0].item()
    assert w == pytest.approx(by_hand(2.0))
    second = process.next(first["state"], [ones], first["client_states"])
    assert second["state"].global_model_weights.trainable[0].item() == pytest.approx(by_hand(2.0, w))


def test_the_term_of_tff_has_the_other_sign(ones, sgd):
    process = tff.learning.algorithms.build_weighted_fed_prox(line, 2.0, sgd)
    state = process.next(process.initialize(), [ones]).state
    assert state.global_model_weights.trainable[0].item() == pytest.approx(by_hand(-2.0))


def test_the_learning_rate_is_that_of_the_other_optimizer(sgd):
    optimizer = ProximalOptimizer(sgd, 1.0)
    state = optimizer.initialize((tf.TensorSpec([2]),))
    rate = {"learning_rate": 0.5}
    assert optimizer.get_hparams(optimizer.set_hparams(state, {**optimizer.get_hparams(state), **rate})) == {
        **sgd.get_hparams(sgd.initialize((tf.TensorSpec([2]),))),
        **rate,
    }


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf"), True, "0.1"])
def test_a_strength_that_is_none_is_refused(model_fn, sgd, strength):
    with pytest.raises(ConfigError, match="the strength of a proximal term is"):
        ProximalOptimizer(sgd, strength)
