"""Model, client datasets and test accuracy of an experiment, in TensorFlow; all seeded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.experiment.config import DataConfig, ModelConfig
from fedplug.experiment.digits import Examples

__all__ = ["Evaluator", "build_keras_model", "client_datasets", "initial_weights", "model_fn"]

_CLASSES = 10
_IMAGE = (8, 8, 1)


def build_keras_model(config: ModelConfig, seed: int) -> tf.keras.Model:
    """A Keras classifier of 8 x 8 images that returns logits; equal seeds give equal weights."""
    glorot = [
        tf.keras.initializers.GlorotUniform(seed=seed + i)
        for i in range(len(config.filters) + len(config.hidden) + 1)
    ]
    initializers = iter(glorot)
    layers: list[Any] = [tf.keras.layers.InputLayer(_IMAGE)]
    layers += [
        tf.keras.layers.Conv2D(n, 3, padding="same", activation="relu", kernel_initializer=next(initializers))
        for n in config.filters
    ]
    layers.append(tf.keras.layers.Flatten())
    layers += [
        tf.keras.layers.Dense(n, activation="relu", kernel_initializer=next(initializers))
        for n in config.hidden
    ]
    layers.append(tf.keras.layers.Dense(_CLASSES, kernel_initializer=next(initializers)))
    return tf.keras.Sequential(layers)


def model_fn(config: ModelConfig, seed: int) -> Callable[[], Any]:
    """What TFF builds the model with."""

    def build() -> Any:
        return tff.learning.models.from_keras_model(
            build_keras_model(config, seed),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=(
                tf.TensorSpec([None, *_IMAGE], tf.float32),
                tf.TensorSpec([None], tf.int32),
            ),
            metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
        )

    return build


def initial_weights(config: ModelConfig, seed: int) -> Any:
    """The `tff.learning.models.ModelWeights` that a training with this seed begins with."""
    return tff.learning.models.ModelWeights.from_model(build_keras_model(config, seed))


def client_datasets(
    config: DataConfig, clients: dict[str, Examples], seed: int
) -> dict[str, Callable[[int], tf.data.Dataset]]:
    """For each client a function from the round number to its shuffled and batched data.

    The order depends on seed, client and round only, so that a resumed run sees what an uninterrupted one
    does.
    """

    def dataset(position: int, examples: Examples, round_num: int) -> tf.data.Dataset:
        generator = np.random.default_rng([seed, position, round_num])
        order = np.concatenate([generator.permutation(len(examples.labels)) for _ in range(config.epochs)])
        shuffled = tf.data.Dataset.from_tensor_slices((examples.images[order], examples.labels[order]))
        return shuffled.batch(config.batch_size)

    return {
        client_id: functools.partial(dataset, position, clients[client_id])
        for position, client_id in enumerate(sorted(clients))
    }


class Evaluator:
    """Accuracy of a server state on the test examples."""

    def __init__(self, config: ModelConfig, test: Examples) -> None:
        self._model = build_keras_model(config, seed=0)  # every call brings its own weights
        self._logits = tf.function(self._model)
        self._test = Examples(tf.constant(test.images), test.labels)

    def accuracy(self, weights: Any) -> float:
        """The fraction of test examples that `tff.learning.models.ModelWeights` get right."""
        weights.assign_weights_to(self._model)
        predictions = np.argmax(self._logits(self._test.images).numpy(), axis=1)
        return float(np.mean(predictions == self._test.labels))
