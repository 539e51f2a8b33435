"""Constrains weights in federated averaging: non-negative, max-norm or any other Keras constraint.

The model is a linear mixture with non-negative parts, as in chemistry. Without a constraint, noise pulls some
averaged weights below zero. The projection is part of the process and is traced once, so that the last of 200
rounds takes as long as the first; the program fails if it does not.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tqdm import tqdm

import fedplug

FEATURES, OUTPUTS, CLIENTS = 40, 5, 20

CONSTRAINTS = {
    "free": lambda w: w,
    "non-negative": tf.keras.constraints.NonNeg(),
    "max-norm 1": tf.keras.constraints.MaxNorm(1.0),
}


class Result(NamedTuple):
    """The final weights, ``float32[FEATURES, OUTPUTS]``, and the seconds of every round."""

    kernel: np.ndarray
    seconds: list[float]

    @property
    def slowdown(self) -> float:
        """Median time of the last quarter of the rounds divided by that of the second; the first warms up."""
        quarter = len(self.seconds) // 4
        return float(np.median(self.seconds[-quarter:]) / np.median(self.seconds[quarter : 2 * quarter]))


def true_kernel(seed: int) -> np.ndarray:
    """Returns a sparse non-negative kernel: most parts are absent from a mixture."""
    rng = np.random.default_rng(seed)
    present = rng.random((FEATURES, OUTPUTS)) < 0.3
    return (present * rng.uniform(0.2, 1, (FEATURES, OUTPUTS))).astype(np.float32)


def make_clients(kernel: np.ndarray, seed: int) -> dict[str, tf.data.Dataset]:
    """Makes noisy mixtures that cannot distinguish a weight of zero from one slightly below."""
    rng = np.random.default_rng([seed, 1])
    clients = {}
    for number in range(CLIENTS):
        x = rng.normal(size=(8, FEATURES)).astype(np.float32)
        y = (x @ kernel + rng.normal(size=(8, OUTPUTS))).astype(np.float32)
        clients[f"client {number:02d}"] = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    return clients


def model_fn() -> tff.learning.models.VariableModel:
    """Returns a dense layer without bias. TFF would ignore a constraint set on the layer itself."""
    layer = tf.keras.layers.Dense(
        OUTPUTS, use_bias=False, kernel_initializer="zeros", input_shape=(FEATURES,)
    )
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, FEATURES]), tf.TensorSpec([None, OUTPUTS])),
    )


def train(name: str, clients: dict[str, tf.data.Dataset], rounds: int) -> Result:
    """Trains with one of `CONSTRAINTS`."""
    free = fedplug.tff.process.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.3), encoder="topk(0.5)"
    )
    process = fedplug.tff.process.constrain_weights(free, [CONSTRAINTS[name]])
    trainer = fedplug.Trainer(process, clients, clients_per_round=5)
    seconds = []
    with tqdm(total=rounds, desc=name, unit="round") as progress:
        started = time.perf_counter()

        def on_round(round_num: int, state: object, metrics: dict) -> None:
            nonlocal started
            seconds.append(time.perf_counter() - started)
            progress.update()
            started = time.perf_counter()

        state = trainer.run(rounds, on_round)
    return Result(np.asarray(state.global_model_weights.trainable[0]), seconds)


def compare(rounds: int, seed: int) -> dict[str, Result]:
    """Trains the same clients in the same rounds with each of `CONSTRAINTS`."""
    clients = make_clients(true_kernel(seed), seed)
    with fedplug.use_runtime("inprocess"):
        return {name: train(name, clients, rounds) for name in CONSTRAINTS}


def main() -> None:
    """Reads the arguments, trains, prints a table, and checks that rounds do not become slower."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="at least 8")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    results = compare(arguments.rounds, arguments.seed)
    kernel = true_kernel(arguments.seed)
    print(f"\n{'':14}  smallest weight  largest norm  error  ms/round  late/early rounds")
    for name, result in results.items():
        norm = np.linalg.norm(result.kernel, axis=0).max()
        error = np.linalg.norm(result.kernel - kernel) / np.linalg.norm(kernel)
        milliseconds = 1000 * np.median(result.seconds)
        print(
            f"{name:14}  {result.kernel.min() + 0.0:15.3f}  {norm:12.3f}  {error:5.3f}  {milliseconds:8.1f}"
            f"  {result.slowdown:17.2f}"
        )
    slowest = max(result.slowdown for result in results.values())
    assert slowest < 2, f"late rounds take {slowest:.2f} times as long as early ones"


if __name__ == "__main__":
    main()
