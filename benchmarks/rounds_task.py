"""Defines the work of a round in `benchmarks.rounds` for all systems: model, data and initial weights.

It needs only NumPy, so that every system can import it in its own environment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLASSES",
    "CLIENTS",
    "EXAMPLES",
    "FEATURES",
    "LEARNING_RATE",
    "WIDTHS",
    "batches",
    "initial_weights",
]

CLIENTS, EXAMPLES, BATCH = 10, 36, 10
FEATURES, CLASSES = 64, 10
LEARNING_RATE = 0.05
WIDTHS = {10_000: 69, 100_000: 281, 1_000_000: 963, 10_000_000: 3125}
"""The width of the two hidden layers by the approximate number of parameters."""

Floats = NDArray[np.float32]


def initial_weights(width: int) -> list[Floats]:
    """Returns kernels ``[inputs, outputs]`` and biases of three dense layers, in turn."""
    rng = np.random.default_rng(0)
    weights = []
    for inputs, outputs in ((FEATURES, width), (width, width), (width, CLASSES)):
        limit = np.sqrt(6 / (inputs + outputs))
        weights += [
            rng.uniform(-limit, limit, (inputs, outputs)).astype(np.float32),
            np.zeros(outputs, np.float32),
        ]
    return weights


def batches(client: int) -> list[tuple[Floats, NDArray[np.int32]]]:
    """Returns a client's batches in order, the same in every round."""
    rng = np.random.default_rng([1, client])
    x = rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, EXAMPLES).astype(np.int32)
    return [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, EXAMPLES, BATCH)]
