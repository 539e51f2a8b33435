"""A tiny model and data for whole rounds, and both runtimes, each started once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.process.learning.components import sharing
from fedplug.tff.runtime import use_runtime

FEATURES, CLASSES = 20, 5


def build_model() -> tff.learning.models.VariableModel:
    layers = [
        tf.keras.layers.InputLayer((FEATURES,)),
        tf.keras.layers.Dense(
            16, activation="relu", kernel_initializer=tf.keras.initializers.GlorotUniform(1)
        ),
        tf.keras.layers.Dense(CLASSES, kernel_initializer=tf.keras.initializers.GlorotUniform(2)),
    ]
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential(layers),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, FEATURES], tf.float32), tf.TensorSpec([None], tf.int32)),
    )


@pytest.fixture(scope="session", autouse=True)
def _traced_once() -> Iterator[None]:
    """Traces the training of clients once per model and optimizer: half of the time to build a process."""
    with sharing({}):
        yield


@pytest.fixture(scope="session")
def model_fn() -> Callable[[], tff.learning.models.VariableModel]:
    return build_model


@pytest.fixture(scope="session")
def dataset() -> Callable[..., tf.data.Dataset]:
    """Returns ``dataset(seed, examples, poisoned)``, which makes a client's data; poison is a NaN."""

    def make(seed: int, examples: int = 12, poisoned: bool = False) -> tf.data.Dataset:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(examples, FEATURES)).astype(np.float32)
        if poisoned:
            x[0, 0] = np.nan
        y = rng.integers(0, CLASSES, examples).astype(np.int32)
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(5)

    return make


@pytest.fixture(scope="module")
def inprocess() -> Iterator[None]:
    """Runs the computations of a module on one context."""
    with use_runtime("inprocess"):
        yield


@pytest.fixture(scope="session")
def sgd() -> tff.learning.optimizers.Optimizer:
    return tff.learning.optimizers.build_sgdm(0.1)
