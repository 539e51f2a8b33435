"""Runs federated averaging written by hand in PyTorch, on one thread: the baseline of `benchmarks.rounds`.

``python -m benchmarks.rounds_torch WIDTH ROUNDS`` prints the times of the rounds and the norm of the final
model as JSON. It needs only PyTorch and NumPy. The other peers on PyTorch import model and data from here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks import rounds_task
from benchmarks.rounds_task import Stopwatch

__all__ = ["Batch", "client_batches", "layers", "report"]

Batch = tuple[torch.Tensor, torch.Tensor]


def layers(width: int) -> list[torch.nn.Module]:
    """Returns the layers of the model with the initial weights."""
    found = [
        torch.nn.Linear(rounds_task.FEATURES, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, rounds_task.CLASSES),
    ]
    parameters = [parameter for layer in found for parameter in layer.parameters()]
    with torch.no_grad():
        for parameter, array in zip(parameters, rounds_task.initial_weights(width), strict=True):
            parameter.copy_(torch.from_numpy(array.T.copy()))
    return found


def client_batches(client: int) -> list[Batch]:
    """Returns a client's batches in order."""
    return [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in rounds_task.batches(client)]


def report(watch: Stopwatch, weights: Sequence[Any]) -> None:
    """Prints the JSON that `benchmarks.rounds` reads."""
    norm = sum(float(torch.as_tensor(weight).double().square().sum()) for weight in weights) ** 0.5
    print(json.dumps({"rounds": watch.rounds, "norm": norm}))


def main(width: int, rounds: int) -> None:
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*layers(width))
    loss_fn = torch.nn.CrossEntropyLoss()
    data = [client_batches(client) for client in range(rounds_task.CLIENTS)]
    parameters = list(model.parameters())
    weights = [parameter.detach().clone() for parameter in parameters]
    watch = Stopwatch()
    for _ in range(rounds):
        total = [torch.zeros_like(weight) for weight in weights]
        examples = 0
        for client in data:
            optimizer = torch.optim.SGD(parameters, lr=rounds_task.LEARNING_RATE)
            with torch.no_grad():
                for parameter, weight in zip(parameters, weights, strict=True):
                    parameter.copy_(weight)
            count = 0
            for x, y in client:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
                count += len(y)
            with torch.no_grad():
                for one, parameter, weight in zip(total, parameters, weights, strict=True):
                    one.add_(parameter - weight, alpha=count)
            examples += count
        weights = [weight + one / examples for weight, one in zip(weights, total, strict=True)]
        watch.end()
    report(watch, weights)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
