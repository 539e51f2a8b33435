"""Measures the savings and costs of broadcast encoders if a fifth of the clients takes part in a round.

    python -m benchmarks.broadcast        # writes benchmarks/results/broadcast.md, in ten minutes

Bytes are those of the computations that a process broadcasts its model with
(`fedplug.tff.process.broadcaster`). The training is federated averaging in NumPy, which is faster for a
network this small.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

import fedplug
from benchmarks.feedback import Array, learned, network, scores
from benchmarks.tables import code, table
from fedplug.diagnostics.environment import environment
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data import load_data
from fedplug.tff.process.aggregation.encoded_aggregation import model_encoder
from fedplug.tff.process.broadcaster import GraphBroadcaster

RESULTS = Path(__file__).parent / "results" / "broadcast.md"
CLIENTS, SAMPLED, LAST = 40, 8, 10


class Task(NamedTuple):
    """The data source, the clients' learning rate, and the hidden layers of the network."""

    source: str
    rate: float
    hidden: tuple[int, ...]


TASKS = {
    "digits": Task("digits", 0.1, (128, 64)),
    "digits-larger": Task("digits", 0.1, (512, 128)),
    "synthetic": Task("synthetic", 0.02, (512, 128)),
}

BROADCASTS = (
    "qsgd(8)",
    "qsgd(4)",
    "bfp(8) | rans",
    "bfp(6) | rans",
    "bfp(5) | rans",
    "bfp(4) | rans",
)

_MADE = """# Broadcasts

Made by `python -m benchmarks.broadcast{arguments}` on {date}: {processor}, {simd}.

{clients} clients, {sampled} a round, {rounds} rounds, {seeds}. Updates go up uncompressed. Down: how many
times fewer bytes than the uncompressed model a client is sent in a round, on average, its first round
included. "last {last}" is of the last rounds alone, when clients seldom are new. Accuracy is the mean of the
last {last} rounds, in percent{deviation}.

Commit daa260f also measured broadcasts of differences: `topk`, `stc` and `artemis`. For each of those rows,
a `bfp` row has at least its accuracy in fewer bytes.
"""


class Result(NamedTuple):
    """The factor by which a training saves bytes, and the accuracy in percent."""

    down: float
    late: float
    accuracy: float


def train(task: Task, broadcast: GraphBroadcaster | None, rounds: int, seed: int) -> Result:
    """Runs federated averaging on the decoded broadcast."""
    data = load_data(DataConfig(source=task.source, clients=CLIENTS), seed)
    generator, ids = np.random.default_rng(seed), sorted(data.clients)
    x, y = (np.asarray(part) for part in data.test)
    x = x.reshape(len(x), -1)
    model = network([x.shape[1], *task.hidden, 10], generator)
    dense = sum(each.nbytes for each in model.values())
    state = broadcast and broadcast.init()
    heard: dict[str, Any] = collections.defaultdict(lambda: broadcast and broadcast.init_client())
    sent, accuracies = [], []
    for number in range(rounds):
        chosen, received, bytes_sent = generator.choice(ids, SAMPLED, replace=False), model, 0
        if broadcast is not None:
            published = broadcast.publish(tuple(model.values()), state)
            state = published["state"]
            received = dict(zip(model, map(np.asarray, state["sent"]), strict=True))
        total, weight = {name: np.zeros_like(each) for name, each in model.items()}, 0
        for client in chosen:
            if broadcast is None:
                bytes_sent += dense
            else:
                caught_up = broadcast.catch_up(heard[client], published["server_message"])
                heard[client] = caught_up["client"]
                bytes_sent += int(caught_up["downlink_bytes"])
            own_x, own_y = (np.asarray(part) for part in data.clients[client])
            order = np.random.default_rng([seed, number, ids.index(client)]).permutation(len(own_y))
            update = learned(received, (own_x.reshape(len(own_x), -1), own_y), task.rate, order)
            total = {name: each + len(order) * update[name] for name, each in total.items()}
            weight += len(order)
        model = {name: (w + total[name] / weight).astype(np.float32) for name, w in model.items()}
        sent.append(bytes_sent)
        accuracies.append(float((scores(model, x)[1].argmax(axis=1) == y).mean()))
    everything = dense * SAMPLED
    return Result(
        everything * rounds / sum(sent),
        everything * LAST / sum(sent[-LAST:]),
        100 * statistics.fmean(accuracies[-LAST:]),
    )


def first_model(task: Task) -> list[Array]:
    """An initial model, which gives the shapes."""
    features = math.prod(load_data(DataConfig(source=task.source), 0).test[0].shape[1:])
    return list(network([features, *task.hidden, 10], np.random.default_rng(0)).values())


def built(expression: str, model: list[Array]) -> GraphBroadcaster:
    value_type = tff.to_type(tuple(tff.TensorType(each.dtype, each.shape) for each in model))
    encoder = model_encoder(fedplug.encoder(expression), value_type, 64)
    return GraphBroadcaster(value_type, encoder, "fused")


def line(shown: str, results: list[Result]) -> list[str]:
    means = Result(*map(statistics.fmean, zip(*results, strict=True)))
    accuracies = [result.accuracy for result in results]
    spread = f" ± {statistics.stdev(accuracies):.1f}" if len(results) > 1 else ""
    return [shown, *(f"{number:.1f}x" for number in means[:2]), f"{means.accuracy:.1f}{spread}"]


def rows(task: Task, model: list[Array], rounds: int, repeats: int) -> Iterator[list[str]]:
    """Yields the rows of a task's table."""
    yield ["broadcast", "down", "last 10", "accuracy"]
    for expression in (None, *BROADCASTS):
        with fedplug.use_runtime("inprocess"):
            broadcast = None if expression is None else built(expression, model)
            results = [train(task, broadcast, rounds, seed) for seed in range(repeats)]
        yield line("none" if expression is None else code(expression), results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    given = parser.parse_args()
    here = environment()
    text = _MADE.format(
        arguments="".join(f" {word}" for word in sys.argv[1:]),
        date=datetime.date.today(),
        processor=here["processor"],
        simd=here["simd"],
        clients=CLIENTS,
        sampled=SAMPLED,
        rounds=given.rounds,
        seeds="one seed" if given.repeats == 1 else f"{given.repeats} seeds",
        last=LAST,
        deviation=", with the deviation between seeds" if given.repeats > 1 else "",
    )
    for name in given.tasks:
        task = TASKS[name]
        model = first_model(task)
        text += f"\n## {task.source}, {sum(each.size for each in model):,} parameters\n\n"
        text += table(rows(task, model, given.rounds, given.repeats))
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
