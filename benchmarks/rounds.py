"""What a round of federated averaging costs, beside a loop written by hand and TFF's stock runtime.

``python -m benchmarks.rounds --torch-python INTERPRETER`` writes benchmarks/results/rounds.md; that one needs
PyTorch. Each way runs in a process of its own, all of them in turn several times, and ends with the same
model but for rounding, which is checked. Figures are medians of processor time, that of worker processes
included.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import rounds_task

RESULT = Path(__file__).with_name("results") / "rounds.md"
REPEATS = 2
ROUNDS = {10_000: 40, 100_000: 40, 1_000_000: 15, 10_000_000: 5}
WARM_UP = 3
WAYS = {
    "torch": "PyTorch, a loop by hand, one thread",
    "dense": "fedplug, `identity`",
    "topk": "fedplug, `topk(0.01)`",
    "tff": "TFF's own process in fedplug's runtime",
    "stock": "TFF's own process in its stock runtime",
}
CHECKED = ("dense", "tff", "stock")
"""Those that make the model which the loop by hand makes."""


def processor_seconds() -> float:
    """Of this process and its children, running or ended."""
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == os.getpid():
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def build(way: str, width: int) -> tuple[Callable[[], None], Callable[[], list[Any]]]:
    """A function that makes a round, and one that returns the model's weights."""
    import tensorflow as tf
    import tensorflow_federated as tff

    import fedplug

    def model_fn() -> Any:
        layers: list[Any] = [tf.keras.layers.InputLayer((rounds_task.FEATURES,))]
        layers += [tf.keras.layers.Dense(width, activation="relu") for _ in range(2)]
        layers += [tf.keras.layers.Dense(rounds_task.CLASSES)]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=(
                tf.TensorSpec([None, rounds_task.FEATURES], tf.float32),
                tf.TensorSpec([None], tf.int32),
            ),
        )

    def dataset(client: int) -> tf.data.Dataset:
        x, y = (tf.concat(columns, 0) for columns in zip(*rounds_task.batches(client), strict=True))
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(len(rounds_task.batches(client)[0][1]))

    fedplug.use_runtime("native" if way == "stock" else "inprocess")
    data = [dataset(client) for client in range(rounds_task.CLIENTS)]
    weights = tff.learning.models.ModelWeights(tuple(rounds_task.initial_weights(width)), ())
    sgd = tff.learning.optimizers.build_sgdm(rounds_task.LEARNING_RATE)
    if way in ("tff", "stock"):
        process = tff.learning.algorithms.build_weighted_fed_avg(model_fn, sgd)
        state = process.set_model_weights(process.initialize(), weights)

        def next_round() -> None:
            nonlocal state
            state = process.next(state, data).state

        return next_round, lambda: list(process.get_model_weights(state).trainable)
    encoder = {"dense": "identity", "topk": "topk(0.01)"}[way]
    trainer = fedplug.Trainer(
        fedplug.process.build_weighted_fed_avg(model_fn, sgd, encoder=encoder),
        {f"client {client}": one for client, one in enumerate(data)},
        initial_weights=weights,
    )
    trained = trainer.initialize()

    def run_round() -> None:
        nonlocal trained
        assert trainer.last_round is not None
        trained = trainer.run(trainer.last_round + 1)

    return run_round, lambda: list(trained.global_model_weights.trainable)


def measure(way: str, width: int, rounds: int) -> None:
    """Prints what `benchmarks.rounds_torch` prints."""
    import numpy as np

    next_round, weights = build(way, width)
    seconds = []
    for _ in range(rounds):
        began = processor_seconds()
        next_round()
        seconds.append(processor_seconds() - began)
    norm = float(np.sqrt(sum(np.sum(np.square(np.asarray(w, np.float64))) for w in weights())))
    print(json.dumps({"seconds": seconds, "norm": norm}))


def run_all(torch_python: str, sizes: list[int]) -> dict[tuple[int, str], float]:
    """Median seconds a round, by number of parameters and way."""
    found: dict[tuple[int, str], list[float]] = collections.defaultdict(list)
    for size in sizes:
        for _ in range(REPEATS):
            norms = {}
            for way in WAYS:
                width, rounds = str(rounds_task.WIDTHS[size]), str(ROUNDS[size])
                command = (
                    [torch_python, "-m", "benchmarks.rounds_torch", width, rounds]
                    if way == "torch"
                    else [sys.executable, "-m", "benchmarks.rounds", "--measure", way, width, rounds]
                )
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                result = json.loads(done.stdout.splitlines()[-1])
                found[size, way] += result["seconds"][WARM_UP if ROUNDS[size] > 2 * WARM_UP else 1 :]
                norms[way] = result["norm"]
            for way in CHECKED:
                assert abs(norms[way] / norms["torch"] - 1) < 1e-5, (size, norms)
    return {key: statistics.median(seconds) for key, seconds in found.items()}


def table(found: dict[tuple[int, str], float], sizes: list[int]) -> str:
    """Milliseconds a round, and how many times those of the loop by hand."""
    lines = [
        "| parameters | " + " | ".join(WAYS.values()) + " |",
        "| --- |" + " --- |" * len(WAYS),
    ]
    for size in sizes:
        by_hand = found[size, "torch"]
        cells = [
            f"{1e3 * found[size, way]:,.0f}"
            + ("" if way == "torch" else f" ({found[size, way] / by_hand:.1f}x)")
            for way in WAYS
        ]
        lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", help="an interpreter that has PyTorch")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(ROUNDS), choices=list(ROUNDS))
    parser.add_argument("--measure", nargs=3, metavar=("WAY", "WIDTH", "ROUNDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        way, width, rounds = given.measure
        measure(way, int(width), int(rounds))
        return
    if not given.torch_python:
        parser.error("--torch-python is missing: an interpreter that has PyTorch, for the loop by hand")
    from fedplug.diagnostics.environment import environment

    began = time.strftime("%Y-%m-%d")
    found = run_all(given.torch_python, given.sizes)
    machine = environment()
    RESULT.write_text(
        "# A round of federated averaging\n\n"
        "Milliseconds of processor time a round, all processes together, and times those of the loop by "
        f"hand; medians. {rounds_task.CLIENTS} clients of {rounds_task.EXAMPLES} examples, four steps each, "
        "three dense layers; states in memory. Made by `python -m benchmarks.rounds`; every way but "
        "`topk(0.01)` ends with the same model but for rounding.\n\n"
        f"{began}, {machine['processor']}, {machine['cores']} cores, {machine['simd']}, TensorFlow "
        f"{machine['tensorflow']}, TFF {machine['tensorflow-federated']}.\n\n{table(found, given.sizes)}\n",
        encoding="utf-8",
    )
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
