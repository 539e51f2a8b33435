"""Runs the rounds of `benchmarks.rounds` in Flower's simulation, on PyTorch: FedAvg over the same clients.

``python -m benchmarks.rounds_flower WIDTH ROUNDS`` prints the same JSON as `benchmarks.rounds_torch`. It
needs ``flwr[simulation]`` and PyTorch. A client has one processor and one thread, and keeps its data between
rounds, as in the other ways.
"""

from __future__ import annotations

import functools
import sys

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks import rounds_task
from benchmarks.rounds_task import Stopwatch
from benchmarks.rounds_torch import Batch, client_batches, layers, report


def _train(width: int, message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    model = _model(width)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=rounds_task.LEARNING_RATE)
    loss_fn = torch.nn.CrossEntropyLoss()
    batches = _batches(int(context.node_config["partition-id"]))
    for x, y in batches:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
    arrays = ArrayRecord(model.state_dict())
    metrics = MetricRecord({"num-examples": sum(len(y) for _, y in batches)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@functools.cache
def _batches(client: int) -> list[Batch]:
    return client_batches(client)


@functools.cache
def _model(width: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(*layers(width))


def main(width: int, rounds: int) -> None:
    client_app, server_app = ClientApp(), ServerApp()
    client_app.train()(functools.partial(_train, width))
    watch = Stopwatch()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=rounds_task.CLIENTS)
        result = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(_model(width).state_dict()),
            num_rounds=rounds,
            evaluate_fn=lambda server_round, _: watch.end() if server_round else watch.begin(),
        )
        report(watch, list(result.arrays.to_torch_state_dict().values()))

    run_simulation(
        server_app,
        client_app,
        num_supernodes=rounds_task.CLIENTS,
        # A separate cluster: otherwise Ray joins any cluster that it finds on the machine.
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"address": "local"},
        },
    )


if __name__ == "__main__":
    # Workers need a client's functions in an importable module: this one, under its name.
    from benchmarks import rounds_flower

    rounds_flower.main(int(sys.argv[1]), int(sys.argv[2]))
