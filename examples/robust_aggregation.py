"""Compares aggregators under sign-flipped or scaled updates: only median, trimmed mean and Krum hold.

The data are handwritten digits on 20 clients, of which 6 are hostile; all updates are compressed. A hostile
client multiplies its loss by a factor. Every client takes one step of gradient descent, so the update is
that multiple of an honest one: -1 flips the sign, 100 scales, -4 does both.

The robust aggregators are those of the plugin fedplug-robust; install it to run this.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tqdm import tqdm

import fedplug
from fedplug.errors import ConfigError

PIXELS, HIDDEN, CLASSES = 64, 32, 10
CLIENTS, HOSTILE = 20, 6

AGGREGATORS = {
    "mean": "mean",
    "median": "median",
    "trimmed mean": "trimmed_mean(0.3)",
    "Krum": "krum(6)",
    "multi-Krum": "krum(6, selected=8)",
}

ATTACKS = {"no attack": 1, "sign-flipped": -1, "scaled by 100": 100, "flipped, times 4": -4}


class Result(NamedTuple):
    """The test accuracy after every round, and the bytes that a client sent in the last one."""

    accuracy: list[float]
    bytes_sent: float


Results = dict[str, dict[str, Result]]  # by aggregator and attack


class Digits:
    """Images ``float32[n, 64]`` and labels ``float32[n]``; the last fifth is held out for the test."""

    def __init__(self, seed: int) -> None:
        """Raises ConfigError if scikit-learn, the source of the images, is not installed."""
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise ConfigError(
                "the digits need scikit-learn; install it with: pip install 'fedplug[experiments]'"
            ) from error
        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(labels))
        self.images = (images[order] / 16).astype(np.float32)
        self.labels = labels[order].astype(np.float32)
        self.test = slice(len(labels) * 4 // 5, None)
        self.parts = np.array_split(np.arange(self.test.start), CLIENTS)

    def clients(self, factor: float) -> dict[str, tf.data.Dataset]:
        """Returns each client's examples in one batch; labels come with the factor of the client's loss."""
        data = {}
        for number, part in enumerate(self.parts):
            factors = np.full(len(part), factor if number < HOSTILE else 1, np.float32)
            y = np.stack([self.labels[part], factors], axis=1)
            dataset = tf.data.Dataset.from_tensor_slices((self.images[part], y))
            data[f"client {number:02d}"] = dataset.batch(len(part))
        return data

    def accuracy(self, weights: list[np.ndarray]) -> float:
        """Returns the accuracy of the network with these kernels and biases on the held-out examples."""
        hidden = np.maximum(self.images[self.test] @ weights[0] + weights[1], 0)
        predicted = np.argmax(hidden @ weights[2] + weights[3], axis=1)
        return float(np.mean(predicted == self.labels[self.test]))


class CrossEntropyTimesFactor(tf.keras.losses.Loss):
    """Cross-entropy of the labels times the client's factor; ``y_true`` holds both."""

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Maps float32[batch, 2] and float32[batch, CLASSES] to float32[batch]."""
        label, factor = tf.unstack(y_true, axis=1)
        return factor * tf.keras.losses.sparse_categorical_crossentropy(label, y_pred, from_logits=True)


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
        loss=CrossEntropyTimesFactor(),
        input_spec=(tf.TensorSpec([None, PIXELS]), tf.TensorSpec([None, 2])),
    )


def train(
    process: fedplug.tff.process.StatefulClientsProcess, digits: Digits, factor: float, rounds: int, name: str
) -> Result:
    """Trains with one aggregator under one attack."""
    trainer = fedplug.Trainer(process, digits.clients(factor))
    accuracy: list[float] = []
    with tqdm(total=rounds, desc=name, unit="round") as progress:

        def on_round(round_num: int, state: object, metrics: dict) -> None:
            accuracy.append(digits.accuracy([np.asarray(w) for w in state.global_model_weights.trainable]))
            progress.update()

        trainer.run(rounds, on_round)
    measured = trainer.last_metrics["aggregator"]
    return Result(accuracy, measured["uplink_bytes"] / measured["payloads"])


def compare(
    rounds: int,
    seed: int,
    encoder: str,
    aggregators: Sequence[str] = tuple(AGGREGATORS),
    attacks: Sequence[str] = tuple(ATTACKS),
) -> Results:
    """Trains with each aggregator under each attack, on the same clients."""
    digits = Digits(seed)
    results: Results = {}
    with fedplug.use_runtime("inprocess"):
        for name in aggregators:
            process = fedplug.tff.process.build_weighted_fed_avg(
                model_fn,
                client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.5),
                encoder=encoder,
                aggregator=AGGREGATORS[name],
            )
            results[name] = {
                attack: train(process, digits, ATTACKS[attack], rounds, f"{name}, {attack}")
                for attack in attacks
            }
    return results


def plot(results: Results, path: Path) -> None:
    """Plots the accuracy by round, with a panel for each attack."""
    from matplotlib.figure import Figure

    attacks = list(next(iter(results.values())))
    figure = Figure(figsize=(3 * len(attacks), 3), layout="constrained")
    for axes, attack in zip(figure.subplots(1, len(attacks), sharey=True), attacks, strict=True):
        for name, by_attack in results.items():
            accuracy = by_attack[attack].accuracy
            axes.plot(range(1, len(accuracy) + 1), accuracy, label=name)
        axes.set(title=attack, xlabel="round", ylim=(0, 1))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(results))
    figure.supylabel("test accuracy")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Reads the arguments, trains under every attack and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--encoder", default="qsgd(8)", help="of the updates, for instance identity or sign")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the accuracies (needs matplotlib)")
    arguments = parser.parse_args()
    results = compare(arguments.rounds, arguments.seed, arguments.encoder)
    print(f"\n{'test accuracy':14}" + "".join(f"{attack:>18}" for attack in ATTACKS))
    for name, by_attack in results.items():
        print(f"{name:14}" + "".join(f"{by_attack[attack].accuracy[-1]:18.3f}" for attack in ATTACKS))
    print(f"{results['mean']['no attack'].bytes_sent:,.0f} bytes per client and round")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
