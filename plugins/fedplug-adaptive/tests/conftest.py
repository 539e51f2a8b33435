"""A tiny model and clients for whole rounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime import use_runtime

FEATURES, CLASSES = 6, 3


@pytest.fixture(scope="session")
def model_fn():
    def make():
        layers = [
            tf.keras.layers.Dense(
                4, kernel_initializer=tf.keras.initializers.GlorotUniform(1), input_shape=(FEATURES,)
            ),
            tf.keras.layers.Dense(CLASSES, kernel_initializer=tf.keras.initializers.GlorotUniform(2)),
        ]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=(tf.TensorSpec([None, FEATURES]), tf.TensorSpec([None], tf.int32)),
        )

    return make


@pytest.fixture(scope="session")
def client():
    """Makes a client's data: ``client(seed, examples)``."""

    def make(seed: int, examples: int = 8) -> tf.data.Dataset:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(examples, FEATURES)).astype(np.float32)
        y = rng.integers(0, CLASSES, examples).astype(np.int32)
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)

    return make


@pytest.fixture(autouse=True, scope="session")
def inprocess() -> Iterator[None]:
    with use_runtime("inprocess"):
        yield
