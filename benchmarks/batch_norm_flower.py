"""Trains for `benchmarks.batch_norm` in Flower: ``python -m benchmarks.batch_norm_flower``.

Arguments: MODEL ROUNDS ENCODER; an empty ENCODER is Flower alone. It prints a line of JSON for each round.
Strategy, mod and messages are Flower's. The nodes are those of fedplug-flower's tests: they answer in this
process, through Flower's serialization.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path

import torch
from fedplug_flower import Compressed, CompressMod
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore.task_identity import TaskIdentity
from local_flower import RUN, Nodes

from benchmarks import batch_norm_task as task


def client_app(model_name: str, compressed: bool) -> ClientApp:
    """Returns the app that trains; only its mod uses fedplug."""
    app = ClientApp(mods=[CompressMod()] if compressed else [])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = task.Network(model_name)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        round_num = int(message.content["config"]["server-round"])
        examples = task.train(model, context.node_id - 1, round_num)
        metrics = MetricRecord({"num-examples": examples})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def main(model_name: str, rounds: int, encoder: str) -> None:
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
    strategy: Strategy = FedAvg(fraction_evaluate=0.0)
    if encoder:
        strategy = Compressed(strategy, encoder)
    with tempfile.TemporaryDirectory() as states:
        nodes = Nodes(Path(states))
        for client in range(task.CLIENTS):
            nodes.add(client + 1, app=client_app(model_name, bool(encoder)))
        model = task.Network(model_name)
        arrays = ArrayRecord(model.state_dict())
        for round_num in range(1, rounds + 1):
            messages = strategy.configure_train(round_num, arrays, ConfigRecord(), nodes)
            replies = nodes.send_and_receive(messages)
            sent = sum(record.count_bytes() for reply in replies for record in _arrays(reply))
            aggregated, _ = strategy.aggregate_train(round_num, replies)
            assert aggregated is not None
            arrays = aggregated
            model.load_state_dict(arrays.to_torch_state_dict())
            found = {
                "accuracy": task.evaluate(model),
                "variance": task.smallest_variance(model),
                "bytes": sent / task.CLIENTS,
            }
            print(json.dumps(found), flush=True)


def _arrays(reply: Message) -> list[ArrayRecord]:
    return list(reply.content.array_records.values())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
