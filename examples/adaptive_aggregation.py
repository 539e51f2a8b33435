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
from digits import CLASSES, PIXELS, Digits, network
from fedplug_adaptive.process import build_adaptive_fed_avg
from lines import by_round, plot
from tqdm import tqdm

import fedplug

NOISY = 8

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


def client_data(digits: Digits) -> dict[str, tf.data.Dataset]:
    """Returns the clients' datasets; the labels of the first clients are random."""
    data = {}
    for number, (name, part) in enumerate(digits.parts().items()):
        y = digits.labels[part]
        if number < NOISY:
            y = digits.rng.integers(0, CLASSES, len(part)).astype(np.int32)
        data[name] = tf.data.Dataset.from_tensor_slices((digits.images[part], y)).batch(10).repeat(5)
    return data


def model_fn() -> tff.learning.models.VariableModel:
    """Returns the model as TFF requires it."""
    return tff.learning.models.from_keras_model(
        network(),
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
    trainer = fedplug.Trainer(process, client_data(digits), clients_per_round=10, seed=seed)
    result = Result([], [])
    with tqdm(total=rounds, desc=name, unit="round") as progress:

        def on_round(round_num: int, state: object, metrics: dict) -> None:
            result.accuracy.append(digits.accuracy(state.global_model_weights.trainable))
            result.adaptive.append(bool(metrics["aggregator"]["adaptive"]))
            progress.update()

        trainer.run(rounds, on_round)
    return result


def compare(encoder: str, rounds: int, seed: int, ways: Sequence[str] = tuple(WAYS)) -> dict[str, Result]:
    """Trains in each way on the same clients."""
    with fedplug.use_runtime("inprocess"):
        return {name: train(name, encoder, rounds, seed) for name in ways}


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
        curves = by_round({name: result.accuracy for name, result in results.items()})
        plot(arguments.plot, curves, xlabel="round", ylabel="test accuracy", ylim=(0, 1))


if __name__ == "__main__":
    main()
