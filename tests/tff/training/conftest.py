"""A linear model with few weights, whose rounds take milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.process import build_weighted_fed_avg
from fedplug.tff.process.learning.components import sharing
from fedplug.tff.runtime import use_runtime


@pytest.fixture(scope="module", autouse=True)
def _inprocess() -> Iterator[None]:
    with use_runtime("inprocess"), sharing({}):
        yield


@pytest.fixture(scope="module")
def build() -> Callable[[str], Any]:
    """Returns a function that builds a process with an encoder."""

    def model_fn() -> tff.learning.models.VariableModel:
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(100,))]),
            loss=tf.keras.losses.MeanSquaredError(),
            input_spec=(tf.TensorSpec([None, 100], tf.float32), tf.TensorSpec([None, 1], tf.float32)),
        )

    optimizer = tff.learning.optimizers.build_sgdm(0.01)
    return lambda encoder: build_weighted_fed_avg(model_fn, optimizer, encoder=encoder)


@pytest.fixture(scope="module")
def process(build: Callable[[str], Any]) -> Any:
    return build("topk(0.1)")


def make_dataset(seed: int) -> tf.data.Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8, 100)).astype(np.float32)
    return (
        tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(8, seed=seed).batch(4)
    )


@pytest.fixture(scope="module")
def client_data() -> dict[str, tf.data.Dataset]:
    return {f"client {i}": make_dataset(i) for i in range(6)}
