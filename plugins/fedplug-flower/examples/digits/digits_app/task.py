"""Images, model and training in NumPy, without Flower."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Model = dict[str, NDArray[np.float32]]
Examples = tuple[NDArray[np.float32], NDArray[np.int64]]

TEST_IMAGES, HIDDEN, CLASSES, BATCH = 360, 128, 10, 32


@cache
def _images() -> Examples:
    """Returns scikit-learn's 1,797 images of 8 x 8 pixels and their labels, shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order] / 16).astype(np.float32), labels[order]


def test_examples() -> Examples:
    """Returns the images that no client trains on."""
    images, labels = _images()
    return images[:TEST_IMAGES], labels[:TEST_IMAGES]


def train_examples(client: int, clients: int) -> Examples:
    """Returns one client's part."""
    images, labels = _images()
    return images[TEST_IMAGES + client :: clients], labels[TEST_IMAGES + client :: clients]


def new_model() -> Model:
    """Returns a network with 64 inputs, a hidden layer and 10 classes."""
    rng = np.random.default_rng(1)
    return {
        "hidden/kernel": rng.normal(0, 0.1, (64, HIDDEN)).astype(np.float32),
        "hidden/bias": np.zeros(HIDDEN, np.float32),
        "classes/kernel": rng.normal(0, 0.1, (HIDDEN, CLASSES)).astype(np.float32),
        "classes/bias": np.zeros(CLASSES, np.float32),
    }


def train(model: Model, examples: Examples, epochs: int, rate: float, seed: int) -> float:
    """Trains the model in place with mini-batch gradient descent. Returns the mean loss."""
    images, labels = examples
    rng, losses = np.random.default_rng(seed), []
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(len(labels)), max(1, len(labels) // BATCH)):
            losses.append(_step(model, images[batch], labels[batch], rate))
    return float(np.mean(losses))


def evaluate(model: Model, examples: Examples) -> tuple[float, float]:
    """Returns the mean loss and the accuracy."""
    images, labels = examples
    _, probabilities = _forward(model, images)
    loss = -np.log(probabilities[np.arange(len(labels)), labels] + 1e-9).mean()
    return float(loss), float((probabilities.argmax(1) == labels).mean())


def _forward(model: Model, images: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    hidden = np.maximum(images @ model["hidden/kernel"] + model["hidden/bias"], 0)
    scores = hidden @ model["classes/kernel"] + model["classes/bias"]
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, exponentials / exponentials.sum(1, keepdims=True)


def _step(model: Model, images: NDArray[np.float32], labels: NDArray[np.int64], rate: float) -> float:
    hidden, probabilities = _forward(model, images)
    rows = np.arange(len(labels))
    loss = -np.log(probabilities[rows, labels] + 1e-9).mean()
    error = probabilities
    error[rows, labels] -= 1
    error /= len(labels)
    back = (error @ model["classes/kernel"].T) * (hidden > 0)
    model["classes/kernel"] -= np.float32(rate) * (hidden.T @ error)
    model["classes/bias"] -= np.float32(rate) * error.sum(0)
    model["hidden/kernel"] -= np.float32(rate) * (images.T @ back)
    model["hidden/bias"] -= np.float32(rate) * back.sum(0)
    return float(loss)
