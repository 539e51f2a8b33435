"""Compares payloads of real updates with the entropy of their content: benchmarks/results/entropy.md.

    python -m benchmarks.entropy        # two minutes

Clients with few labels each train on scikit-learn's digits by federated averaging. Every encoder trains the
network that it compresses, so residuals and updates are those of its own rounds. It needs no TensorFlow.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import fedplug
from benchmarks.tables import code, table
from fedplug.codecs import TensorMetrics

RESULTS = Path(__file__).parent / "results" / "entropy.md"
HIDDEN = ((128, 64), (1024, 256))
CLIENTS = 5
ROUNDS = 3
ENCODERS = (
    "topk(0.01)",
    "topk(0.01) | gaps",
    "topk(0.01, scope='model') | qsgd(8) | gaps",
    "topk(0.01, scope='model') | qsgd(4) | rans",
    "topk(0.01, scope='model') | qsgd(4) | rans | gaps",
    "topk(0.1, scope='model') | qsgd(4) | rans",
    "topk(0.1, scope='model') | qsgd(4) | rans | gaps",
    "topk(0.01, scope='model') | sign",
    "topk(0.01, scope='model') | sign | gaps",
    "topk(0.1, scope='model') | sign | gaps",
    "topk(0.1, scope='model') | codebook(2) | rans | gaps",
    "qsgd(8)",
    "qsgd(8) | rans",
    "qsgd(4) | rans",
    "qsgd(2) | rans",
    "qsgd(8, block_size=256, rounding='nearest') | rans",
    "codebook(4) | rans",
    "bounded(0.01) | rans",
    "bounded(0.001) | rans",
)

KEYS = ("uplink_bytes", "header_bytes", "index_bytes", "value_bytes", "entropy_bytes")

_MADE = """# Payloads and the entropy of what they carry

Made by `python -m benchmarks.entropy` on {date}.

Updates of {clients} clients in {rounds} rounds of federated averaging on scikit-learn's digits (one pass over
80 images, SGD); bytes of a client's update, the mean over clients and rounds. The bound is headers as they
are, indices at log2 C(n, k) bits, which is what sets of k of n entries take that are all equally likely, and
values at the empirical entropy of their symbols, with scales as they are.
What stands beyond it is what a code that knew all frequencies would save, which of a few symbols none can
know; below it are codes that learn where entries stand, and how large their neighbours are.
"""

Arrays = dict[str, NDArray[np.float32]]


def network(hidden: Sequence[int]) -> MLPClassifier:
    """Returns the initial network, whose weights `partial_fit` creates."""
    images, labels = load_digits(return_X_y=True)
    made = MLPClassifier(hidden, solver="sgd", learning_rate_init=0.05, batch_size=10, random_state=0)
    return made.partial_fit(images[:10] / 16, labels[:10], classes=range(10))


def weights(model: MLPClassifier) -> list[NDArray[Any]]:
    return [*model.coefs_, *model.intercepts_]


def client_data() -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The data by client: half of a client's images have two labels, the others any."""
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    chosen = []
    for client in range(CLIENTS):
        own = np.flatnonzero(np.isin(labels, [2 * client, 2 * client + 1]))
        rows = np.concatenate(
            [rng.choice(own, 40, replace=False), rng.choice(len(labels), 40, replace=False)]
        )
        chosen.append((images[rows] / 16, labels[rows]))
    return chosen


def train(hidden: Sequence[int], codec: Any, metrics: TensorMetrics) -> None:
    """Runs federated averaging and measures its payloads."""
    model, data = network(hidden), client_data()
    server = [x.copy() for x in weights(model)]
    names = [
        f"layer{i % (len(server) // 2)}/{'kernel' if x.ndim == 2 else 'bias'}" for i, x in enumerate(server)
    ]
    states: list[Any] = [None] * CLIENTS
    for round_num in range(ROUNDS):
        total = [np.zeros_like(x) for x in server]
        for client, (x, y) in enumerate(data):
            for now, start in zip(weights(model), server, strict=True):
                now[...] = start
            model.partial_fit(x, y)
            update: Arrays = {
                name: (new - old).astype(np.float32)
                for name, new, old in zip(names, weights(model), server, strict=True)
            }
            payloads, states[client] = codec.encode_model(update, states[client], round_num, metrics=metrics)
            for acc, name in zip(total, names, strict=True):
                acc += fedplug.decode(payloads[name])
        server = [old + acc / CLIENTS for old, acc in zip(server, total, strict=True)]


def measured(expression: str, hidden: Sequence[int]) -> dict[str, float]:
    """Bytes of all payloads of an experiment: those sent, and their lower bound."""
    metrics = TensorMetrics()
    train(hidden, fedplug.codec(expression, min_size=0), metrics)
    tensors = metrics.value().values()
    return {key: sum(float(each[key] or 0) for each in tensors) for key in KEYS}


def row(expression: str, hidden: Sequence[int]) -> list[str]:
    found = measured(expression, hidden)
    payloads = ROUNDS * CLIENTS
    bound = found["header_bytes"] + found["entropy_bytes"]
    return [
        code(expression),
        *(f"{found[key] / payloads:,.0f}" for key in KEYS[:4]),
        f"{bound / payloads:,.0f}",
        f"{100 * (found['uplink_bytes'] / bound - 1):+.1f} %",
    ]


def main() -> None:
    text = _MADE.format(date=datetime.date.today(), clients=CLIENTS, rounds=ROUNDS)
    for hidden in HIDDEN:
        elements = sum(x.size for x in weights(network(hidden)))
        text += f"\n## {elements:,} elements (64-{'-'.join(map(str, hidden))}-10)\n\n"
        head = ["encoder", "bytes", "headers", "indices", "values", "bound", "beyond it"]
        text += table(itertools.chain([head], (row(expression, hidden) for expression in ENCODERS)))
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
