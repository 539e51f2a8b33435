"""Tests that Keras models and their weights survive a process, and that others are refused by name."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import fedplug
from fedplug.errors import ConfigError

SPEC = (tf.TensorSpec([None, 4], tf.int32), tf.TensorSpec([None, 4], tf.int32))
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
layers = tf.keras.layers


def sequential(*inner, **options) -> tf.keras.Model:
    embedding = layers.Embedding(7, 5, **(options or {"input_length": 4}))
    return tf.keras.Sequential([embedding, *inner, layers.Dense(7)], name="text")


def shared() -> tf.keras.Model:
    x = tf.keras.Input([4], dtype=tf.int32)
    dense = layers.Dense(5)
    return tf.keras.Model(x, dense(dense(layers.Embedding(7, 5)(x))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: sequential(layers.Bidirectional(layers.GRU(3, return_sequences=True)), layers.Dropout(0.5)),
        lambda: sequential(layers.Conv1D(3, 2, padding="causal"), layers.LayerNormalization()),
        shared,
    ],
    ids=["recurrent", "convolution", "shared"],
)
def test_the_model_begins_with_the_weights_of_the_keras_model(make) -> None:
    model = make()
    functional = fedplug.tff.process.from_keras(model, LOSS, SPEC)
    for got, want in zip(functional.initial_weights[0], model.trainable_weights, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
@pytest.mark.parametrize("ending", ["keras", pytest.param("h5", marks=pytest.mark.slow)])
def test_a_model_from_a_file_is_trained_measured_and_saved(inprocess, sgd, tmp_path, ending) -> None:
    before, after = tmp_path / f"before.{ending}", tmp_path / f"after.{ending}"
    sequential(layers.Conv1D(3, 2, padding="causal")).save(before)
    model = tf.keras.models.load_model(before, compile=False)
    first = model.get_weights()
    x = np.random.default_rng(0).integers(0, 7, (8, 4)).astype(np.int32)
    loss = float(LOSS(x, model(x)))  # before TFF builds a graph, after which Keras refuses
    spec = {"x": SPEC[0], "y": SPEC[1]}  # batches may be mappings
    metrics = [tf.keras.metrics.SparseCategoricalAccuracy]
    functional = fedplug.tff.process.from_keras(model, LOSS, spec, metrics)
    process = fedplug.tff.process.build_weighted_fed_avg(functional, sgd)
    data = tf.data.Dataset.from_tensor_slices({"x": x, "y": x}).batch(8)
    state = process.initialize()
    for got, want in zip(state.global_model_weights.trainable, first, strict=True):
        np.testing.assert_array_equal(got, want)
    output = process.next(state, [data])
    found = output.metrics["client_work"]["train"]
    np.testing.assert_allclose(found["loss"], loss, rtol=1e-5)
    assert set(found) == {"loss", "sparse_categorical_accuracy"}
    weights = output.state.global_model_weights
    fedplug.tff.process.to_keras(model, weights).save(after)
    trained = tf.keras.models.load_model(after, compile=False)
    for got, want in zip(trained.get_weights(), weights.trainable, strict=True):
        np.testing.assert_array_equal(got, want)
    assert float(LOSS(x, trained(x))) < loss


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "mse"}, "the loss is 'mse'; it must be a tf.keras.losses.Loss, for instance"),
        ({"input_spec": SPEC[0]}, r"it must be \(features, labels\) or"),
        ({"input_spec": {"pixels": SPEC[0], "label": SPEC[1]}}, "{'x': features, 'y': labels}"),
    ],
)
def test_an_invalid_loss_or_specification_is_an_error(arguments, message) -> None:
    with pytest.raises(ConfigError, match=message):
        fedplug.tff.process.from_keras(sequential(), **{"loss": LOSS, "input_spec": SPEC, **arguments})


def frozen() -> tf.keras.Model:
    model = sequential()
    model.layers[0].trainable = False
    return model


class Subclassed(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.dense = layers.Embedding(7, 5), layers.Dense(7)

    def call(self, x):
        return self.dense(self.embedding(x))


def subclassed() -> tf.keras.Model:
    model = Subclassed()
    model(np.zeros((1, 4), np.int32))
    return model


INNER = [layers.Dense(5, input_shape=(4, 5)), layers.BatchNormalization(name="norm")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sequential(layers.BatchNormalization(name="norm")),
            "'norm'.*use GroupNormalization or Layer",
        ),
        (lambda: sequential(tf.keras.Sequential(INNER)), "layer 'norm'.*BatchNormalization"),
        (
            lambda: sequential(layers.GRU(3, stateful=True, name="memory"), batch_input_shape=(2, 4)),
            "layer 'memory'.*stateful=False",
        ),
        (lambda: sequential(tf.keras.Sequential(INNER[:1])), "'text' has its weights in another order"),
        (frozen, "embedding.*not trainable; set trainable = True"),
        (subclassed, "cannot be built again in a graph"),
        (lambda: tf.keras.Sequential([layers.Dense(2)]), "model that is built and so has weights"),
        (lambda: layers.Dense(2), "expected a Keras model"),
    ],
    ids=["normalized", "normalized-inside", "stateful", "nested", "frozen", "subclassed", "unbuilt", "layer"],
)
def test_a_model_that_cannot_be_cloned_is_refused_with_the_way_out(make, message) -> None:
    with pytest.raises(ConfigError, match=message):
        fedplug.tff.process.from_keras(make(), LOSS, SPEC)
