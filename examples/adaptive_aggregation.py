"""Aggregates adaptively, in the style of FedMed: weights depend on the divergence of each layer.

The data are handwritten digits on 20 clients, of which 8 have random labels; the server does not know which.
Three weightings are compared: plain averaging; weights that fall with a client's divergence, at two
temperatures; and a choice in every round, adaptive only if the clients' loss has not fallen. All updates
are compressed.

The aggregation is that of the plugin fedplug-adaptive; install it to run this.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_adaptive.process import build_adaptive_fed_avg
from tqdm import tqdm

import fedplug
from fedplug.errors import ConfigError

PIXELS, HIDDEN, CLASSES = 64, 32, 10
CLIENTS, NOISY = 20, 8

WAYS = {
    "plain": {"weighting": "plain"},
    "adaptive, warm": {"weighting": "adaptive", "temperature": 0.001},
    "adaptive, cold": {"weighting": "adaptive", "temperature": 0.0003},
    "chosen, cold": {"weighting": "auto", "temperature": 0.0003},
}


class Result(NamedTuple):
    """Results by round: test accuracy, and whether the round was adaptive."""

    accuracy: list[float]
    adaptive: list[bool]


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

    def clients(self) -> dict[str, tf.data.Dataset]:
        """Returns the clients' datasets; the labels of the first clients are random."""
        data = {}
        for number, part in enumerate(np.array_split(np.arange(self.test.start), CLIENTS)):
            y = self.labels[part]
            if number < NOISY:
                y = self.rng.integers(0, CLASSES, len(part)).astype(np.int32)
            dataset = tf.data.Dataset.from_tensor_slices((self.images[part], y))
            data[f"client {number:02d}"] = dataset.batch(10).repeat(5)
        return data

    def accuracy(self, weights: list[np.ndarray]) -> float:
        """Returns the accuracy of the network with these kernels and biases on the held-out examples."""
        hidden = np.maximum(self.images[self.test] @ weights[0] + weights[1], 0)
        predicted = np.argmax(hidden @ weights[2] + weights[3], axis=1)
        return float(np.mean(predicted == self.labels[self.test]))


def model_fn() -> tff.learning.models.VariableModel:
    """Returns a model with one hidden layer."""
    layers = [
        tf.keras.layers.Dense(
            HIDDEN,
            activation="relu",
            kernel_initializer=tf.keras.initializers.GlorotUniform(1),
            input_shape=(PIXELS,),
        ),
        tf.keras.layers.Dense(CLASSES, kernel_initializer=tf.keras.initializers.GlorotUniform(2)),
    ]
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential(layers),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, PIXELS]), tf.TensorSpec([None], tf.int32)),
    )


def train(name: str, encoder: str, rounds: int, seed: int) -> Result:
    """Trains with one of `WAYS`; clients and their rounds are the same for each."""
    digits = Digits(seed)
    process = build_adaptive_fed_avg(
        model_fn,
        tff.learning.optimizers.build_sgdm(0.1),
        layers=[0, 0, 1, 1],  # a kernel and its bias are one layer
        encoder=encoder,
        **WAYS[name],
    )
    trainer = fedplug.Trainer(process, digits.clients(), clients_per_round=10, seed=seed)
    result = Result([], [])
    with tqdm(total=rounds, desc=name, unit="round") as progress:

        def on_round(round_num: int, state: object, metrics: dict) -> None:
            weights = [np.asarray(w) for w in state.global_model_weights.trainable]
            result.accuracy.append(digits.accuracy(weights))
            result.adaptive.append(bool(metrics["aggregator"]["adaptive"]))
            progress.update()

        trainer.run(rounds, on_round)
    return result


def compare(encoder: str, rounds: int, seed: int, ways: Sequence[str] = tuple(WAYS)) -> dict[str, Result]:
    """Trains in each way on the same clients."""
    with fedplug.use_runtime("inprocess"):
        return {name: train(name, encoder, rounds, seed) for name in ways}


def plot(results: dict[str, Result], path: Path) -> None:
    """Plots the accuracy by round."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, result in results.items():
        axes.plot(range(1, len(result.accuracy) + 1), result.accuracy, label=name)
    axes.set(xlabel="round", ylabel="test accuracy", ylim=(0, 1))
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Reads the arguments, trains in all ways and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--encoder", default="topk(0.1)", help="of the updates, for instance identity")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the accuracies (needs matplotlib)")
    arguments = parser.parse_args()
    results = compare(arguments.encoder, arguments.rounds, arguments.seed)
    print(f"\n{'':18}  accuracy in the last 10 rounds  adaptive rounds")
    for name, (accuracy, adaptive) in results.items():
        print(f"{name:18}  {np.mean(accuracy[-10:]):30.3f}  {sum(adaptive):15}")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
