"""Measures, seed by seed, what masked sums lose to no compression: writes benchmarks/results/masks.md.

    FEDPLUG_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.masks  # trains what runs/masks lacks

Data, model and training are those of benchmarks.learning, in NumPy. Integers, sums and magnitudes are those
of `fedplug.secure.MaskedSum`. The result of each training is kept, so an interrupted run continues. All of
them take about two hours on an idle core.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.feedback import Model, learned, network, scores
from benchmarks.tables import table
from fedplug.diagnostics.environment import environment
from fedplug.secure import MaskedSum
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data.load import load_data

RESULTS = Path(__file__).parent / "results" / "masks.md"
RUNS = Path("runs") / "masks.jsonl"
ROUNDS, RATE = 300, 0.05
MEASURED, FEW = 100, 10

_MADE = """# What masked sums lose, seed by seed

Made by `python -m benchmarks.masks` on {date}: {machine}.

Test accuracy in %, the mean of rounds {first} to {rounds}, and differences from no compression in points.
Data, networks and learning rate are those of [learning.md](learning.md), in another order of clients. SecAgg+
sends 8 bytes for each parameter. "Changes": the standard deviation of the accuracy between these rounds.
"Other draws": the same data and weights, but other draws of clients and examples. "Clipped": each update is
clipped to a norm that 80 % of earlier updates did not exceed, also without compression. The second table of a
task has the mean of the last {few} rounds only.

"""
_TITLES = {
    "synthetic": "Synthetic(1, 1), 8 of 30 clients a round",
    "digits": "Digits, 10 of 40 clients a round",
}


class Task(NamedTuple):
    """The data, the clients of a round, the number of seeds, and the encoders."""

    data: DataConfig
    clients: int
    seeds: int
    encoders: list[str]


class Scheme(NamedTuple):
    """The contents of a client's message.

    Attributes:
        encoder: The encoder of the masked sum. Empty: the update itself.
        clipped: Whether updates are clipped to a norm that 80 % of earlier updates had.
        draw: The draw of clients and examples.
    """

    encoder: str = ""
    clipped: bool = False
    draw: int = 0


CURVE = [
    f"sharedk(0.25, clients=10, bits={bits}, rank={rank}, max_weight=2000)"
    for bits, rank in ((10, 1), (11, 2), (15, 8), (9, 23), (10, 20), (15, 32), (15, 76))
]
"""About .25, .5, 1, 1, 1, 2 and 4 % of the bytes of SecAgg+."""

CHOSEN = CURVE[2:5]
TASKS = {
    "synthetic": Task(DataConfig(source="synthetic", clients=30), 8, 6, CURVE),
    "digits": Task(DataConfig(source="digits"), 10, 3, CHOSEN),
}
SCHEMES = {
    "no compression": Scheme(),
    **{encoder: Scheme(encoder) for encoder in CURVE},
    "clipped, no compression": Scheme(clipped=True),
    **{f"clipped, {encoder}": Scheme(encoder, clipped=True) for encoder in CHOSEN},
    "other draws, no compression": Scheme(draw=1),
}


class Clipping:
    """Clips updates to a norm that follows the 80 % quantile, as `tff.aggregators.clipping_factory` does."""

    def __init__(self) -> None:
        self.norm = 1.0
        self._within: list[float] = []

    def clip(self, update: Model) -> Model:
        norm = math.sqrt(sum(float(np.vdot(x, x)) for x in update.values()))
        self._within.append(float(norm <= self.norm))
        return (
            {name: x * np.float32(min(1, self.norm / norm)) for name, x in update.items()} if norm else update
        )

    def end_round(self) -> None:
        self.norm *= math.exp(-0.2 * (np.mean(self._within) - 0.8))
        self._within = []


def train(task: Task, scheme: Scheme, seed: int) -> dict[str, Any]:
    """Returns the accuracies of the last rounds, and the inequality of the clients."""
    data = load_data(task.data, seed)
    clients = [(x.reshape(len(x), -1), y) for x, y in data.clients.values()]
    test_x, test_y = data.test
    test_x = test_x.reshape(len(test_x), -1)
    model = network((test_x.shape[1], 512, 128, 10), np.random.default_rng([seed, 1]))
    masked = MaskedSum(scheme.encoder, model) if scheme.encoder else None
    server = masked.init_server() if masked else {}
    residuals = [masked.init_client() if masked else {} for _ in clients]
    clipping, accuracies = Clipping(), []
    for round_num in range(ROUNDS):
        rng = np.random.default_rng([seed, 2 + 10 * scheme.draw, round_num])
        message = masked.message(server) if masked else b""
        total: object = 0
        mean = {name: np.zeros_like(x) for name, x in model.items()}
        drawn = rng.choice(len(clients), task.clients, replace=False)
        weights = [len(clients[i][1]) for i in drawn]
        for i, weight in zip(drawn.tolist(), weights, strict=True):
            order = np.random.default_rng([seed, 3 + 10 * scheme.draw, round_num, i])
            update = learned(model, clients[i], RATE, order.permutation(len(clients[i][1])))
            if scheme.clipped:
                update = clipping.clip(update)
            if masked:
                vector, residuals[i] = masked.encode(update, residuals[i], message, weight=weight)
                total = total + vector
            else:
                for name, x in update.items():
                    mean[name] += np.float32(weight / sum(weights)) * x
        if masked:
            (mean, *_), server = masked.decode(total, server)
        if scheme.clipped:
            clipping.end_round()
        for name, x in mean.items():
            model[name] += x
        if round_num >= ROUNDS - MEASURED:
            right = scores(model, test_x)[1].argmax(axis=1) == test_y
            accuracies.append(100 * float(right.mean()))
    sizes = [len(y) for _, y in clients]
    parameters = sum(x.size for x in model.values())
    return {
        "accuracies": np.round(accuracies, 3).tolist(),
        "largest share": max(sizes) / sum(sizes),
        "of SecAgg+": masked.length * masked.bits / 8 / (8 * parameters) if masked else 1.0,
    }


def read_results() -> dict[tuple[str, str, int], dict[str, Any]]:
    """Returns the results of finished trainings by task, scheme and seed."""
    lines = RUNS.read_text(encoding="utf-8").splitlines() if RUNS.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row.pop("task"), row.pop("scheme"), row.pop("seed")): row for row in rows}


def by_seed(results: Mapping[tuple[str, str, int], dict[str, Any]], task: str, last: int) -> str:
    """Returns the table of a task over the last rounds. Its columns are seeds."""
    seeds = range(TASKS[task].seeds)
    means = {
        key[1:]: float(np.mean(row["accuracies"][-last:])) for key, row in results.items() if key[0] == task
    }
    plain = {
        seed: results[task, "no compression", seed] for scheme, seed in means if scheme == "no compression"
    }
    shares = {seed: 100 * row["largest share"] for seed, row in plain.items()}
    changes = {seed: float(np.std(row["accuracies"][-last:])) for seed, row in plain.items()}
    rows = [
        ["", "of SecAgg+'s bytes", "mean", *(f"seed {seed}" for seed in seeds)],
        ["share of the largest client, %", "", "", *_cells(shares, seeds, "{:.0f}")[1:]],
        ["changes", "", *_cells(changes, seeds, "{:.2f}")],
    ]
    for name, scheme in SCHEMES.items():
        base = next(each for each in SCHEMES if SCHEMES[each] == scheme._replace(encoder=""))
        values = {
            seed: means[name, seed] for seed in seeds if (name, seed) in means and (base, seed) in means
        }
        if values and name != base:
            values = {seed: value - means[base, seed] for seed, value in values.items()}
        if values:
            sent = f"{100 * results[task, name, min(values)]['of SecAgg+']:.2f} %"
            rows.append([name, sent, *_cells(values, seeds, "{:.2f}" if name == base else "{:+.2f}")])
    return table(rows)


def _cells(values: Mapping[int, float], seeds: Iterable[int], text: str) -> list[str]:
    """Returns the mean and the value of each seed as cells."""
    mean = text.format(np.mean(list(values.values())))
    return [mean, *(text.format(values[seed]) if seed in values else "" for seed in seeds)]


def main() -> None:
    RUNS.parent.mkdir(exist_ok=True)
    finished = read_results()
    for scheme, (name, task) in itertools.product(SCHEMES, TASKS.items()):
        if SCHEMES[scheme].encoder not in ("", *task.encoders):
            continue
        for seed in range(task.seeds):
            if (name, scheme, seed) not in finished:
                row = train(task, SCHEMES[scheme], seed)
                with RUNS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"task": name, "scheme": scheme, "seed": seed, **row}) + "\n")
    write_results()


def write_results() -> None:
    """Writes the tables of finished trainings."""
    here, results = environment(), read_results()
    machine = f"{here['processor']}, {os.cpu_count()} cores"
    rounds = {"first": ROUNDS - MEASURED + 1, "rounds": ROUNDS, "few": FEW}
    text = _MADE.format(date=datetime.date.today(), machine=machine, **rounds)
    for name, title in _TITLES.items():
        text += f"## {title}\n\n{by_seed(results, name, MEASURED)}\n{by_seed(results, name, FEW)}\n"
    RESULTS.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
