"""Compares error feedback, memories and warm-ups if few clients take part in a round.

    python -m benchmarks.feedback    # writes benchmarks/results/feedback.md, in a quarter of an hour

Federated averaging is written by hand, so that only the codec differs. Each client of a round makes one pass
over its data, at most 20 steps, and sends the encoded difference. The server adds the mean of the decoded
updates, weighted by examples; for encoders of differences it does what `memory_mean` does. There are two
tasks: scikit-learn's digits with one hidden layer, and Synthetic(1, 1) with logistic regression. Nothing is
tuned to either. It needs no TensorFlow.
"""

from __future__ import annotations

import datetime
import itertools
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import fedplug
from benchmarks.tables import table
from fedplug.diagnostics.environment import environment
from fedplug.tff.experiment.data.load import by_dirichlet, hold_out
from fedplug.tff.experiment.data.sources import load_synthetic

RESULTS = Path(__file__).parent / "results" / "feedback.md"
ROUNDS, LAST, SEEDS, STEPS, BATCH = 200, 10, (0, 1, 2), 20, 10
PARTS = (0.1, 0.25)
CLASSES = 10
PROCESSES = 1

Array = NDArray[Any]
Model = dict[str, Array]
TOPK = "topk(0.01, scope='model')"


WAYS = {
    "no compression": "identity",
    "no error feedback": "topk(0.01, scope='model', error_feedback=False)",
    "keep, the default": TOPK,
    "`ef21`": f'ef21("{TOPK}")',
    "no memory, `qsgd(4)`": "qsgd(4)",
    "warm-up, 25 % to 1 % in 20 rounds": "topk(exponential(0.25, 0.01, 20), scope='model')",
    "as many bytes as with the warm-up": "topk(0.0165, scope='model')",
}


class Task(NamedTuple):
    """The examples of every client and of the test, and the width of the hidden layer, 0 for none."""

    clients: list[tuple[Array, Array]]
    test: tuple[Array, Array]
    hidden: int
    rate: float


def digits(seed: int) -> Task:
    """40 clients with different label distributions: Dirichlet 0.3."""
    data = load_digits()
    x, y = (data.data / 16).astype(np.float32), data.target.astype(np.int32)
    train, test = hold_out(y, 0.2, seed)
    groups = by_dirichlet(y[train], 40, 0.3, seed)
    return Task([(x[train][g], y[train][g]) for g in groups], (x[test], y[test]), 128, 0.05)


def synthetic(seed: int) -> Task:
    """30 clients with different inputs and different models."""
    pooled = load_synthetic(30, 1.0, 1.0, seed)
    assert pooled.client is not None
    x, y = pooled.examples.x, pooled.examples.y
    train, test = hold_out(pooled.client, 0.1, seed)
    names = np.unique(pooled.client)
    mine = [train[pooled.client[train] == name] for name in names]
    return Task([(x[m], y[m]) for m in mine], (x[test], y[test]), 0, 0.01)


TASKS: dict[str, Callable[[int], Task]] = {"digits": digits, "Synthetic(1, 1)": synthetic}


def first_model(task: Task, seed: int) -> Model:
    widths = [task.test[0].shape[1], *([task.hidden] if task.hidden else []), CLASSES]
    return network(widths, np.random.default_rng(seed))


def network(widths: Sequence[int], generator: np.random.Generator) -> Model:
    """Glorot's uniform weights, and biases of zero."""
    model: Model = {}
    for place, (rows, columns) in enumerate(itertools.pairwise(widths)):
        limit = np.sqrt(6 / (rows + columns))
        model[f"kernel{place}"] = generator.uniform(-limit, limit, (rows, columns)).astype(np.float32)
        model[f"bias{place}"] = np.zeros(columns, np.float32)
    return model


def scores(model: Model, x: Array) -> tuple[list[Array], Array]:
    """The inputs of all layers, and the scores of the classes."""
    inputs = [x]
    for place in range(len(model) // 2 - 1):
        inputs.append(np.maximum(inputs[-1] @ model[f"kernel{place}"] + model[f"bias{place}"], 0))
    last = len(model) // 2 - 1
    return inputs, inputs[-1] @ model[f"kernel{last}"] + model[f"bias{last}"]


def step(model: Model, x: Array, y: Array, rate: float) -> None:
    """Takes one step of gradient descent on the cross-entropy, in place."""
    inputs, out = scores(model, x)
    slope = np.exp(out - out.max(axis=1, keepdims=True))
    slope /= slope.sum(axis=1, keepdims=True)
    slope[np.arange(len(y)), y] -= 1
    slope /= len(y)
    for place in reversed(range(len(inputs))):
        back = (slope @ model[f"kernel{place}"].T) * (inputs[place] > 0)
        model[f"kernel{place}"] -= rate * (inputs[place].T @ slope)
        model[f"bias{place}"] -= rate * slope.sum(axis=0)
        slope = back


def learned(model: Model, data: tuple[Array, Array], rate: float, order: Array) -> Model:
    """The difference that training on these examples in this order makes."""
    x, y = data
    trained = {name: array.copy() for name, array in model.items()}
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        step(trained, x[batch], y[batch], rate)
    return {name: trained[name] - model[name] for name in model}


def train(task: Task, way: str, part: float, seed: int) -> tuple[float, float]:
    """The mean accuracy of the last rounds' models, and the mean bytes of an update."""
    codec, model = fedplug.codec(way), first_model(task, seed)
    number, sampled = len(task.clients), max(1, round(part * len(task.clients)))
    sends_differences = codec.encoder.capabilities.sends_differences
    memory = {name: np.zeros_like(array) for name, array in model.items()}
    states: dict[int, Any] = {}
    sent, accuracies = 0, []
    for round_num in range(ROUNDS):
        chosen = np.random.default_rng([seed, round_num]).choice(number, sampled, replace=False)
        sums, weights = {name: np.zeros_like(array) for name, array in model.items()}, 0
        for client in sorted(chosen.tolist()):
            generator = np.random.default_rng([seed, round_num, client])
            order = generator.permutation(len(task.clients[client][1]))[: STEPS * BATCH]
            update = learned(model, task.clients[client], task.rate, order)
            payloads, states[client] = codec.encode_model(update, states.get(client), round_num)
            sent += sum(map(len, payloads.values()))
            weight = 1 if sends_differences else len(task.clients[client][1])
            for name, payload in payloads.items():
                sums[name] += weight * fedplug.decode(payload)
            weights += weight
        for name in model:
            model[name] += memory[name] + sums[name] / np.float32(weights)
            if sends_differences:
                memory[name] += sums[name] / np.float32(number)
        if round_num >= ROUNDS - LAST:
            x, y = task.test
            accuracies.append(float(np.mean(scores(model, x)[1].argmax(axis=1) == y)))
    return 100 * statistics.fmean(accuracies), sent / (ROUNDS * sampled)


def measured(job: tuple[str, str, float]) -> list[tuple[float, float]]:
    """The results of one way for all seeds."""
    task, way, part = job
    with np.errstate(over="ignore", invalid="ignore"):
        return [_or_diverged(TASKS[task](seed), WAYS[way], part, seed) for seed in SEEDS]


def _or_diverged(task: Task, way: str, part: float, seed: int) -> tuple[float, float]:
    try:
        return train(task, way, part, seed)
    except fedplug.NonFiniteError:
        return 100 / CLASSES, float("nan")


def page(found: dict[tuple[str, str, float], list[tuple[float, float]]]) -> str:
    columns = [(task, part) for task in TASKS for part in PARTS]
    heads = [f"{task}, {part:.0%}" for task, part in columns]
    lines = [
        "# Feedback where few take part",
        "",
        f"Made by `python -m benchmarks.feedback` on {datetime.date.today()}:",
        f"{environment()['processor']}, {environment()['simd']}.",
        "",
        f"Accuracy in percent of the models of the last {LAST} of {ROUNDS} rounds, mean and standard",
        f"deviation of {len(SEEDS)} seeds. Digits: 40 clients, Dirichlet 0.3, a hidden layer of 128;",
        "Synthetic(1, 1): 30 clients, logistic regression. The percentage is the share of clients that take",
        "part in a round. Without other words 1 % of the model's entries are sent.",
        "",
    ]
    rows = [["", *heads, "bytes an update, digits"]]
    for way in WAYS:
        cells = []
        for task, part in columns:
            accuracies = [accuracy for accuracy, _ in found[task, way, part]]
            cells.append(f"{statistics.fmean(accuracies):.1f} ± {statistics.stdev(accuracies):.1f}")
        size = statistics.fmean(size for _, size in found["digits", way, PARTS[-1]])
        rows.append([way, *cells, f"{size:,.0f}"])
    return "\n".join(lines) + "\n" + table(rows)


def main() -> None:
    jobs = [(task, way, part) for task in TASKS for way in WAYS for part in PARTS]
    with ProcessPoolExecutor(PROCESSES) as pool:
        found = {}
        for job, result in zip(jobs, pool.map(measured, jobs), strict=True):
            found[job] = result
            print(*job, result, flush=True)
    RESULTS.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
