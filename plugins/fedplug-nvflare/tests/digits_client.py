"""A site of the tests' jobs that trains softmax regression on its part of the handwritten digits.

It runs as a user's script in NVFlare's simulator, and without NVFlare for the expected results.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAME = "numpy_key"
"""NVFlare's name of the only array of a NumPy model."""

SHAPE = (65, 10)
STEPS, RATE = 20, 0.5


def examples(site: str, sites: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns pixels with a column of ones, and labels, of a site. Sites differ in labels and in size."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = np.concatenate([x / 16, np.ones((len(x), 1))], axis=1).astype(np.float32)
    place = int(site.removeprefix("site-")) - 1
    order = np.argsort(y // 5, kind="stable")
    mine = order[place::sites] if place else order[: len(order) // (sites + 1)]
    return x[mine], y[mine]


def train(
    weights: NDArray[np.float32], x: NDArray[np.float32], y: NDArray[np.int64]
) -> tuple[NDArray[np.float32], float]:
    """Takes gradient steps on all examples. Returns the new weights and the accuracy of the old ones."""
    targets = np.eye(10, dtype=np.float32)[y]
    accuracy = float(np.mean(np.argmax(x @ weights, axis=1) == y))
    for _ in range(STEPS):
        logits = x @ weights
        exps = np.exp(logits - logits.max(axis=1, keepdims=True))
        gradient = x.T @ (exps / exps.sum(axis=1, keepdims=True) - targets) / np.float32(len(y))
        weights = weights - np.float32(RATE) * gradient
    return weights, accuracy


def main(sites: int) -> None:
    import nvflare.client as flare
    from nvflare.apis.fl_constant import FLMetaKey

    flare.init()
    x, y = examples(flare.get_site_name(), sites)
    while flare.is_running():
        received: Any = flare.receive()
        if received is None:
            break
        weights, accuracy = train(received.params[NAME], x, y)
        flare.send(
            flare.FLModel(
                params={NAME: weights},
                metrics={"accuracy": accuracy},
                meta={FLMetaKey.NUM_STEPS_CURRENT_ROUND: len(y)},
            )
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int)
    main(parser.parse_args().sites)
