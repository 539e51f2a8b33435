"""Compares a round of federated averaging with a loop written by hand, TFF's stock runtime, and others.

``python -m benchmarks.rounds --torch-python PYTHON --flower-python PYTHON --pfl-python PYTHON`` writes
benchmarks/results/rounds.md. The interpreters need PyTorch; the last two also need Flower's simulation
(``flwr[simulation]``) or pfl-research (``pfl[pytorch]``), and without them their columns are omitted. Each
way runs in its own process, and all take turns several times. A check ensures that all end with the same
model except for rounding. Figures are medians; processor time includes worker processes. ``--sizes``,
``--ways`` and ``--found`` split the measurement.
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
from benchmarks.rounds_task import Stopwatch

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
    "pfl": "pfl-research, one thread",
    "flower": "Flower's simulation",
}
CHECKED = ("dense", "tff", "stock", "pfl", "flower")
"""The ways that must end with the model of the loop by hand."""
PEERS = ("torch", "pfl", "flower")
"""The ways in separate environments; see `benchmarks.rounds_torch` and so on."""


def build(way: str, width: int) -> tuple[Callable[[], None], Callable[[], list[Any]]]:
    """Returns a function that runs a round, and one that returns the model's weights."""
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
        fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, encoder=encoder),
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
    """Prints the same JSON as `benchmarks.rounds_torch`."""
    import numpy as np

    next_round, weights = build(way, width)
    watch = Stopwatch()
    for _ in range(rounds):
        next_round()
        watch.end()
    norm = float(np.sqrt(sum(np.sum(np.square(np.asarray(w, np.float64))) for w in weights())))
    print(json.dumps({"rounds": watch.rounds, "norm": norm}))


Rounds = dict[str, list[tuple[float, float]]]
"""Seconds of every round, of the processors and of the clock, by size and way, as in ``"10000 torch"``."""

Figures = dict[tuple[int, str], tuple[float, float]]
"""Median seconds per round, of the processors and of the clock, by number of parameters and way."""


def run_all(interpreters: dict[str, str], sizes: list[int], ways: list[str], repeats: int) -> Rounds:
    """Runs every way; those on PyTorch use their own interpreters."""
    found: Rounds = collections.defaultdict(list)
    for size in sizes:
        for _ in range(repeats):
            norms = {}
            for way in ways:
                width, rounds = str(rounds_task.WIDTHS[size]), str(ROUNDS[size])
                command = (
                    [interpreters[way], "-m", f"benchmarks.rounds_{way}", width, rounds]
                    if way in PEERS
                    else [sys.executable, "-m", "benchmarks.rounds", "--measure", way, width, rounds]
                )
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                result = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
                found[f"{size} {way}"] += result["rounds"][WARM_UP if ROUNDS[size] > 2 * WARM_UP else 1 :]
                norms[way] = result["norm"]
            for way in norms.keys() & set(CHECKED) if "torch" in norms else ():
                assert abs(norms[way] / norms["torch"] - 1) < 1e-5, (size, norms)
    return found


def medians(found: Rounds) -> Figures:
    """The medians for the tables."""
    figures = {}
    for key, rounds in found.items():
        size, way = key.split()
        processor, clock = (statistics.median(column) for column in zip(*rounds, strict=True))
        figures[int(size), way] = processor, clock
    return figures


def table(found: Figures, sizes: list[int], cell: Callable[[int, str], str]) -> str:
    """Formats a table with one row per size and one column per way."""
    ways = [way for way in WAYS if any((size, way) in found for size in sizes)]
    lines = ["| parameters | " + " | ".join(WAYS[way] for way in ways) + " |"]
    lines.append("| --- |" + " --- |" * len(ways))
    for size in sizes:
        cells = [cell(size, way) if (size, way) in found else "" for way in ways]
        lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables(found: Figures, sizes: list[int]) -> str:
    """Milliseconds of processor time, also relative to the loop by hand; and clients per second."""

    def milliseconds(size: int, way: str) -> str:
        processor, by_hand = found[size, way][0], found[size, "torch"][0]
        return f"{1e3 * processor:,.0f}" + ("" if way == "torch" else f" ({processor / by_hand:.1f}x)")

    def clients_a_second(size: int, way: str) -> str:
        clients = rounds_task.CLIENTS / found[size, way][1]
        return f"{clients:,.0f}" if clients >= 10 else f"{clients:.1f}"

    return (
        f"{table(found, sizes, milliseconds)}\n\n"
        f"Clients a second, by the clock:\n\n{table(found, sizes, clients_a_second)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for peer in PEERS:
        parser.add_argument(f"--{peer}-python", help=f"an interpreter for the way {WAYS[peer]!r}")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(ROUNDS), choices=list(ROUNDS))
    parser.add_argument("--measure", nargs=3, metavar=("WAY", "WIDTH", "ROUNDS"), help=argparse.SUPPRESS)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument(
        "--found",
        type=Path,
        help="a JSON file of rounds of earlier calls on this machine, which those of this join",
    )
    given = parser.parse_args()
    if given.measure:
        way, width, rounds = given.measure
        measure(way, int(width), int(rounds))
        return
    if not given.torch_python:
        parser.error("--torch-python is missing: an interpreter that has PyTorch, for the loop by hand")
    from fedplug.diagnostics.environment import environment

    began, load = time.strftime("%Y-%m-%d"), os.getloadavg()[0]
    interpreters = {peer: getattr(given, f"{peer}_python") for peer in PEERS}
    ways = [way for way in given.ways if way not in PEERS or interpreters[way]]
    rounds = run_all(interpreters, given.sizes, ways, given.repeats)
    if given.found:
        earlier = json.loads(given.found.read_text()) if given.found.exists() else {}
        rounds = {key: earlier.get(key, []) + rounds.get(key, []) for key in earlier.keys() | rounds.keys()}
        given.found.write_text(json.dumps(rounds))
    found = medians(rounds)
    sizes = sorted({size for size, _ in found})
    machine = environment()
    RESULT.write_text(
        "# A round of federated averaging\n\n"
        "Milliseconds of processor time a round, all processes together, and times those of the loop by "
        f"hand; medians. {rounds_task.CLIENTS} clients of {rounds_task.EXAMPLES} examples, four steps each, "
        "three dense layers; states in memory. Made by `python -m benchmarks.rounds`; every way but "
        "`topk(0.01)` ends with the same model but for rounding.\n\n"
        f"{began}, {machine['processor']}, {machine['cores']} cores, {machine['simd']}, TensorFlow "
        f"{machine['tensorflow']}, TFF {machine['tensorflow-federated']}; load average {load:.1f} when it "
        f"began.\n\n{tables(found, sizes)}\n",
        encoding="utf-8",
    )
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
