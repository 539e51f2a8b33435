"""Trains with compression both ways: the server sends the changes of its model, and clients catch up.

If only clients compress, the broadcast remains uncompressed. In this example the server also sends its model
with few bits per element. A client that was not sampled for some rounds receives the entries that changed
since, or a snapshot if that is shorter. It ends with the same bits as a client that received every round.

The task is synthetic: classes around centers in 64 dimensions, three classes per client, and 40 clients of
which 10 are sampled in each round.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tqdm import tqdm

import fedplug

FEATURES, CLASSES, HIDDEN = 64, 10, 64

WAYS = {
    "dense both ways": {},
    "sparse up": {"encoder": "topk(0.05)"},
    "sparse up, 8 bits down": {"encoder": "topk(0.05)", "broadcast_encoder": "qsgd(8)"},
    "sparse up, 5 bits down": {"encoder": "topk(0.05)", "broadcast_encoder": "bfp(5) | rans"},
}


class Result(NamedTuple):
    """The results of a run.

    Attributes:
        accuracy: Accuracy on held-out examples, after every round.
        up: Mean bytes that one client sent in one round.
        down: Mean bytes that one client received in one round, catching up included.
        traffic: Total bytes of all clients in both directions, up to each round.
        distance: Relative distance between the server's model and the model of the clients, at the end.
    """

    accuracy: list[float]
    up: float
    down: float
    traffic: list[int]
    distance: float


class Task(NamedTuple):
    """The examples of every client, and the held-out examples."""

    clients: dict[str, tf.data.Dataset]
    x: np.ndarray
    y: np.ndarray


def make_task(clients: int, seed: int) -> Task:
    """Makes two noisy centers for each class; a client has examples of three classes."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(2, CLASSES, FEATURES)).astype(np.float32)

    def examples(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        which = rng.integers(0, 2, len(classes))
        noise = rng.normal(scale=1.5, size=(len(classes), FEATURES))
        return (centers[which, classes] + noise).astype(np.float32), classes.astype(np.int32)

    data = {}
    for number in range(clients):
        own = rng.choice(CLASSES, 3, replace=False)
        data[f"client {number:03d}"] = tf.data.Dataset.from_tensor_slices(
            examples(rng.choice(own, 60))
        ).batch(20)
    return Task(data, *examples(rng.integers(0, CLASSES, 2000)))


def keras_model() -> tf.keras.Sequential:
    """Returns a model with one hidden layer and always the same initial weights."""
    return tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer((FEATURES,)),
            tf.keras.layers.Dense(
                HIDDEN, activation="relu", kernel_initializer=tf.keras.initializers.GlorotUniform(1)
            ),
            tf.keras.layers.Dense(CLASSES, kernel_initializer=tf.keras.initializers.GlorotUniform(2)),
        ]
    )


def model_fn() -> tff.learning.models.VariableModel:
    """Returns the model as TFF requires it."""
    return tff.learning.models.from_keras_model(
        keras_model(),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, FEATURES]), tf.TensorSpec([None], tf.int32)),
    )


def train(task: Task, way: str, rounds: int, clients_per_round: int) -> Result:
    """Trains in one of the ways."""
    sgd = tff.learning.optimizers.build_sgdm(0.1)
    process = fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, **WAYS[way])
    trainer = fedplug.Trainer(process, task.clients, clients_per_round=clients_per_round)
    evaluated = keras_model()
    accuracy, up, down = [], [], []

    def on_round(round_num: int, state: object, metrics: dict) -> None:
        state.global_model_weights.assign_weights_to(evaluated)
        predicted = np.argmax(evaluated(task.x), axis=1)
        accuracy.append(float(np.mean(predicted == task.y)))
        up.append(int(metrics["aggregator"]["uplink_bytes"]))
        down.append(int(metrics["distributor"]["downlink_bytes"]))
        progress.update()

    with tqdm(total=rounds, desc=way, unit="round") as progress:
        state = trainer.run(rounds, on_round)
    messages = rounds * clients_per_round
    traffic = np.cumsum(np.add(up, down)).tolist()
    return Result(accuracy, sum(up) / messages, sum(down) / messages, traffic, distance_to_sent(state))


def distance_to_sent(state: object) -> float:
    """Returns ``||model - sent|| / ||model||``; 0 if the server sends its model uncompressed."""
    if not state.distributor:
        return 0.0
    model = np.concatenate([np.ravel(w) for w in state.global_model_weights.trainable])
    sent = np.concatenate([np.ravel(w) for w in state.distributor["sent"].trainable])
    return float(np.linalg.norm(model - sent) / np.linalg.norm(model))


def compare(rounds: int, clients: int, clients_per_round: int, seed: int) -> dict[str, Result]:
    """Trains in all ways on the same task, with the same clients in the same rounds."""
    task = make_task(clients, seed)
    with fedplug.use_runtime("inprocess"):
        return {way: train(task, way, rounds, clients_per_round) for way in WAYS}


def plot(results: dict[str, Result], path: Path) -> None:
    """Plots the accuracy against the bytes of both directions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for way, result in results.items():
        axes.plot(np.divide(result.traffic, 1e6), result.accuracy, label=way)
    axes.set(xlabel="MB up and down, all clients together", ylabel="test accuracy")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Reads the arguments, trains in all ways and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--clients-per-round", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw accuracy over bytes (needs matplotlib)"
    )
    arguments = parser.parse_args()
    results = compare(arguments.rounds, arguments.clients, arguments.clients_per_round, arguments.seed)
    print(f"\n{'':22}  accuracy  bytes up  bytes down  both, MB  model - sent")
    for way, (accuracy, up, down, traffic, distance) in results.items():
        print(
            f"{way:22}  {np.mean(accuracy[-10:]):8.3f}  {up:8,.0f}  {down:10,.0f}  {traffic[-1] / 1e6:8.2f}"
            f"  {distance:12.4f}"
        )
    print("\nbytes per client and round; accuracy is the mean of the last 10 rounds")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
