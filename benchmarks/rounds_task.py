"""The work of a round that `benchmarks.rounds` times in several systems: model, data and initial weights.

NumPy alone, so that every system can import it in an environment of its own.
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
"""Of the two hidden layers, by the number of parameters, about."""

Floats = NDArray[np.float32]


def initial_weights(width: int) -> list[Floats]:
    """Kernels ``[inputs, outputs]`` and biases of three dense layers, in turn."""
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
    """What a client trains on, in order: the same in every round."""
    rng = np.random.default_rng([1, client])
    x = rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, EXAMPLES).astype(np.int32)
    return [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, EXAMPLES, BATCH)]
