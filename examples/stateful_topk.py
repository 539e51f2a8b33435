"""Compares top-k with a residual on every client, stateless top-k and dense updates, in federated averaging.

A common question is how to keep a local residual in an encoder in federated averaging. Here a client sends
the 40 % largest entries of an 800-parameter layer and keeps the other 60 %. It adds them to its next update,
in whichever round that is. The layer's bias is sent uncompressed.

The fourth run is the same method as a stage of TensorFlow Model Optimization, written for TFF's older
releases. It runs unchanged and learns the same, but has no code for its indices.

The task is adversarial for top-k. Clients disagree strongly about one half of the weights, in ways that
cancel, and agree mildly about the other half. The disputed weights always have the largest updates, so
without a residual the other half is never sent.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_model_optimization.python.core.internal import tensor_encoding
from tqdm import tqdm

import fedplug
from fedplug.tff.compat.tfmot import StageEncoder

FEATURES, OUTPUTS, DISPUTED = 100, 8, 50  # 800 weights; those of the first 50 features are disputed


@tensor_encoding.core.tf_style_adaptive_encoding_stage
class TopKStage(tensor_encoding.core.AdaptiveEncodingStageInterface):
    """Top-k with its residual as the state of an adaptive stage; ``spec`` gives the shape of the residual."""

    name = "topk"
    compressible_tensors_keys = ("values",)
    commutes_with_sum = False  # clients select different entries
    decode_needs_input_shape = True
    state_update_aggregation_modes = {"residual": tensor_encoding.core.StateAggregationMode.SUM}  # noqa: RUF012

    def __init__(self, spec: tf.TensorSpec, fraction: float) -> None:
        self._spec = spec
        self._k = round(fraction * spec.shape.num_elements())

    def initial_state(self) -> dict:
        """Returns a residual of zeros."""
        return {"residual": tf.zeros(self._spec.shape, self._spec.dtype)}

    def get_params(self, state: dict) -> tuple[dict, dict]:
        """Returns the residual for encoding and nothing for decoding."""
        return {"residual": state["residual"]}, {}

    def encode(self, x: tf.Tensor, encode_params: dict) -> tuple[dict, dict]:
        """Sends k signed entries and keeps the others."""
        total = tf.reshape(x + encode_params["residual"], [-1])
        indices = tf.math.top_k(tf.abs(total), self._k).indices
        values = tf.gather(total, indices)
        kept = tf.tensor_scatter_nd_update(total, indices[:, tf.newaxis], tf.zeros_like(values))
        return {"values": values, "indices": indices}, {"residual": tf.reshape(kept, x.shape)}

    def update_state(self, state: dict, state_update_tensors: dict) -> dict:
        """Returns the entries that were kept."""
        return {"residual": state_update_tensors["residual"]}

    def decode(self, encoded_tensors: dict, decode_params: dict, num_summands=None, shape=None) -> tf.Tensor:
        """Scatters the values into zeros."""
        indices = encoded_tensors["indices"][:, tf.newaxis]
        dense = tf.scatter_nd(indices, encoded_tensors["values"], [tf.reduce_prod(shape)])
        return tf.reshape(dense, shape)


ENCODERS = {
    "dense": "identity",
    "stateless top-k": "topk(0.4, error_feedback=False)",
    "stateful top-k": "topk(0.4)",
    "the same, by tfmot": StageEncoder(TopKStage, fraction=0.4),
}


class Result(NamedTuple):
    """The results of a run; errors are relative, ``||found - true|| / ||true||``.

    Attributes:
        errors: Errors of the undisputed weights, after every round.
        bytes_sent: Bytes sent by one client in one round.
        clients_with_residual: Number of clients that have a residual.
    """

    errors: list[float]
    bytes_sent: float
    clients_with_residual: int


class Task(NamedTuple):
    """The true weights, and every client's examples of its own version of them."""

    weights: np.ndarray
    clients: dict[str, tf.data.Dataset]


def make_task(clients: int, seed: int) -> Task:
    """Makes clients with labels ``x @ (weights + dispute_c)``; the disputes cancel over the clients."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(FEATURES, OUTPUTS)).astype(np.float32)
    disputes = np.zeros((clients, FEATURES, OUTPUTS), np.float32)
    disputes[:, :DISPUTED] = 3 * rng.choice([-1, 1], (clients, DISPUTED, OUTPUTS))
    disputes -= disputes.mean(axis=0)
    data = {}
    for number, dispute in enumerate(disputes):
        # With orthogonal inputs, an update is the error of each weight, and nothing else.
        x = np.linalg.qr(rng.normal(size=(2 * FEATURES, FEATURES)))[0].astype(np.float32) * np.sqrt(FEATURES)
        y = (x @ (weights + dispute)).astype(np.float32)
        data[f"client {number:02d}"] = tf.data.Dataset.from_tensor_slices((x, y)).batch(len(x))
    return Task(weights, data)


def model_fn() -> tff.learning.models.VariableModel:
    """Returns a dense layer, trained from zero; a new one each time, as TFF requires."""
    layer = tf.keras.layers.Dense(OUTPUTS, kernel_initializer="zeros", input_shape=(FEATURES,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, FEATURES]), tf.TensorSpec([None, OUTPUTS])),
    )


def train(task: Task, name: str, rounds: int, clients_per_round: int) -> Result:
    """Trains with one encoder; a client that skips rounds finds its residual in the store."""
    process = fedplug.tff.process.build_weighted_fed_avg(
        model_fn,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.8),
        encoder=ENCODERS[name],
        min_size=FEATURES * OUTPUTS,  # smaller tensors, here the bias, are sent uncompressed
    )
    with fedplug.open_store("memory://") as store:  # sqlite:///folder is durable
        trainer = fedplug.Trainer(
            process, task.clients, store=store, process_id=name, clients_per_round=clients_per_round
        )
        errors, bytes_sent = [], []

        def on_round(round_num: int, state: object, metrics: dict) -> None:
            kernel = np.asarray(state.global_model_weights.trainable[0])
            errors.append(relative_error(kernel[DISPUTED:], task.weights[DISPUTED:]))
            bytes_sent.append(metrics["aggregator"]["uplink_bytes"] / metrics["aggregator"]["payloads"])
            progress.update()

        with tqdm(total=rounds, desc=name, unit="round") as progress:
            trainer.run(rounds, on_round)
        kept = store.open_process(name, process.signature).read_clients(trainer.client_ids)
    with_residual = sum(any(np.any(residual) for residual in client.values()) for client in kept.values())
    return Result(errors, float(np.mean(bytes_sent)), with_residual)


def relative_error(found: np.ndarray, true: np.ndarray) -> float:
    """Returns ``||found - true|| / ||true||``."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def compare(rounds: int, clients: int, clients_per_round: int, seed: int) -> dict[str, Result]:
    """Trains with all encoders on the same task, with the same clients in the same rounds."""
    task = make_task(clients, seed)
    with fedplug.use_runtime("inprocess"):
        return {name: train(task, name, rounds, clients_per_round) for name in ENCODERS}


def plot(results: dict[str, Result], path: Path) -> None:
    """Plots the errors by round."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    styles = ("-", "-", "-", ":")  # dots, because the last line covers the previous one
    for (name, result), style in zip(results.items(), styles, strict=True):
        axes.semilogy(range(1, len(result.errors) + 1), result.errors, style, linewidth=2, label=name)
    axes.set(xlabel="round", ylabel="relative error of the agreed weights")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Reads the arguments, trains four ways and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--clients-per-round", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the errors (needs matplotlib)")
    arguments = parser.parse_args()
    results = compare(arguments.rounds, arguments.clients, arguments.clients_per_round, arguments.seed)
    print(f"\n{'':18}  error of agreed weights  bytes/client/round  clients with a residual")
    for name, (errors, bytes_sent, with_residual) in results.items():
        print(f"{name:18}  {errors[-1]:23.4f}  {bytes_sent:18,.0f}  {with_residual:23}")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
