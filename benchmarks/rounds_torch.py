"""Federated averaging as one writes it by hand in PyTorch, on one thread: the peer of `benchmarks.rounds`.

``python -m benchmarks.rounds_torch WIDTH ROUNDS`` prints seconds of processor time for each round, and the
norm of the model at the end, as JSON. Needs PyTorch and NumPy alone.
"""

from __future__ import annotations

import json
import sys
import time

import torch

from benchmarks import rounds_task


def main(width: int, rounds: int) -> None:
    torch.set_num_threads(1)
    layers = [
        torch.nn.Linear(rounds_task.FEATURES, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, rounds_task.CLASSES),
    ]
    model = torch.nn.Sequential(*layers)
    loss_fn = torch.nn.CrossEntropyLoss()
    weights = [torch.from_numpy(array.T.copy()) for array in rounds_task.initial_weights(width)]
    data = [
        [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in rounds_task.batches(client)]
        for client in range(rounds_task.CLIENTS)
    ]
    parameters = list(model.parameters())
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
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
        seconds.append(time.process_time() - began)
    norm = float(torch.sqrt(sum(weight.double().square().sum() for weight in weights)))
    print(json.dumps({"seconds": seconds, "norm": norm}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
