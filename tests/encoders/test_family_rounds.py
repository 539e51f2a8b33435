"""Tests rounds of federated averaging with encoders of the family, on the in-process runtime."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.tff.process import build_weighted_fed_avg

FEATURES, CLASSES = 40, 5


@pytest.fixture(scope="module", autouse=True)
def _inprocess():
    with fedplug.use_runtime("inprocess"):
        yield


def model_fn():
    layer = tf.keras.layers.Dense(CLASSES, kernel_initializer="zeros", input_shape=(FEATURES,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, FEATURES], tf.float32), tf.TensorSpec([None], tf.int32)),
    )


def dataset():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, 20).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(5)


@functools.cache
def one_round(encoder):
    """The sum of one client's round for the weight matrix, the client's next state, and the bytes sent."""
    optimizer = tff.learning.optimizers.build_sgdm(0.1)
    process = build_weighted_fed_avg(model_fn, optimizer, encoder=encoder, lowering="fused")
    output = process.next(process.initialize(), [dataset()], [process.initialize_client()])
    kernel = np.asarray(output["state"].global_model_weights.trainable[0])
    (client_state,) = output["client_states"]
    return kernel, client_state[0], int(output["metrics"]["aggregator"]["uplink_bytes"])


@pytest.mark.parametrize(
    "encoder",
    [
        "topk(0.1) | qsgd(8) | rice",
        pytest.param("randomk(0.1, error_feedback=True) | sign | shortest", marks=pytest.mark.slow),
        pytest.param("stc(0.1)", marks=pytest.mark.slow),
    ],
)
def test_what_a_client_sends_and_what_it_keeps_is_what_it_learned(encoder):
    learned, _, dense_bytes = one_round("identity")
    sent, state, sent_bytes = one_round(encoder)
    # An update is the model before training minus the model after: the server's model is minus the sum.
    np.testing.assert_allclose(sent - state["residual"], learned, rtol=1e-5, atol=1e-6)
    assert sent_bytes < dense_bytes / 3


def test_an_unbiased_quantizer_needs_no_state_and_comes_near_to_what_was_learned():
    learned, _, dense_bytes = one_round("identity")
    sent, state, sent_bytes = one_round("qsgd(8)")
    assert not state
    assert np.abs(sent - learned).max() <= np.abs(learned).max() / 127
    assert sent_bytes < dense_bytes / 2
