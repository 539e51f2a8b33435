"""The network of an experiment without its own model: convolutions, then dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.tff.experiment.config import ModelConfig

__all__ = ["build_network"]


def build_network(config: ModelConfig, inputs: tf.TensorSpec, outputs: int, seed: int) -> tf.keras.Model:
    """Builds a Keras model without a final activation. Equal seeds give equal weights.

    Args:
        config: The widths of its layers.
        inputs: The type of one example. Whole numbers are converted to floating-point numbers.
        outputs: Width of the last layer.
        seed: The seed of the initial weights.

    Raises:
        ConfigError: There are convolutions, but the inputs are not images ``[height, width, channels]``.
    """
    if config.filters and len(inputs.shape) != 3:
        raise ConfigError(
            f"[model] filters is {list(config.filters)}; it must be left out, because inputs of shape "
            f"{list(inputs.shape)} are not images [height, width, channels]"
        )
    glorot = [
        tf.keras.initializers.GlorotUniform(seed=seed + i)
        for i in range(len(config.filters) + len(config.hidden) + 1)
    ]
    initializers = iter(glorot)
    layers: list[Any] = [tf.keras.layers.InputLayer(tuple(inputs.shape), dtype=inputs.dtype)]
    if not inputs.dtype.is_floating:
        layers.append(tf.keras.layers.Rescaling(1.0))
    layers += _convolutions(config.filters, initializers)
    layers.append(tf.keras.layers.Flatten())
    layers += [
        tf.keras.layers.Dense(n, activation="relu", kernel_initializer=next(initializers))
        for n in config.hidden
    ]
    layers.append(tf.keras.layers.Dense(outputs, kernel_initializer=next(initializers)))
    return tf.keras.Sequential(layers)


def _convolutions(filters: Sequence[int], initializers: Any) -> list[Any]:
    return [
        tf.keras.layers.Conv2D(n, 3, padding="same", activation="relu", kernel_initializer=next(initializers))
        for n in filters
    ]
