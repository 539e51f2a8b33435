"""Handwritten digits and a network with one hidden layer, for examples in which some clients do harm."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from fedplug.errors import ConfigError

PIXELS, HIDDEN, CLASSES = 64, 32, 10
CLIENTS = 20


class Digits:
    """Images ``float32[n, 64]`` and labels ``int32[n]``; the last fifth is held out for the test."""

    def __init__(self, seed: int) -> None:
        """Raises ConfigError if scikit-learn, the source of the images, is not installed."""
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise ConfigError(
                "the digits need scikit-learn; install it with: pip install 'fedplug[experiments]'"
            ) from error
        images, labels = load_digits(return_X_y=True)
        self.rng = np.random.default_rng(seed)
        order = self.rng.permutation(len(labels))
        self.images = (images[order] / 16).astype(np.float32)
        self.labels = labels[order].astype(np.int32)
        self.test = slice(len(labels) * 4 // 5, None)

    def parts(self) -> dict[str, np.ndarray]:
        """Returns the positions of the training examples of each client."""
        parts = np.array_split(np.arange(self.test.start), CLIENTS)
        return {f"client {number:02d}": part for number, part in enumerate(parts)}

    def accuracy(self, weights: tf.Tensor) -> float:
        """Returns the accuracy of `network` with these kernels and biases on the held-out examples."""
        kernel, bias, last_kernel, last_bias = map(np.asarray, weights)
        hidden = np.maximum(self.images[self.test] @ kernel + bias, 0)
        predicted = np.argmax(hidden @ last_kernel + last_bias, axis=1)
        return float(np.mean(predicted == self.labels[self.test]))


def network() -> tf.keras.Sequential:
    """Returns the network, always with the same initial weights."""
    glorot = tf.keras.initializers.GlorotUniform
    first = tf.keras.layers.Dense(HIDDEN, "relu", kernel_initializer=glorot(1), input_shape=(PIXELS,))
    return tf.keras.Sequential([first, tf.keras.layers.Dense(CLASSES, kernel_initializer=glorot(2))])
