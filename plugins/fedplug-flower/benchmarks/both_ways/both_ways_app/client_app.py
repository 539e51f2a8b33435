"""The ClientApp; only the mod is specific to fedplug."""

from __future__ import annotations

import torch
from fedplug_flower import CompressMod
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from both_ways_app import models

app = ClientApp(mods=[CompressMod()])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Trains on the images of this node."""
    torch.set_num_threads(1)
    client, clients = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    model = received(message, context)
    round_num = 100 * int(context.run_config["seed"]) + int(message.content["config"]["server-round"])
    examples = models.train(model, client, clients, round_num)
    metrics = MetricRecord({"num-examples": examples})
    return Message(
        RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message
    )


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Tests the model that this node received."""
    torch.set_num_threads(1)
    found = {"num-examples": 1, "accuracy": models.accuracy(received(message, context))}
    return Message(RecordDict({"metrics": MetricRecord(found)}), reply_to=message)


def received(message: Message, context: Context) -> torch.nn.Module:
    """Returns a model with the message's weights."""
    model = models.new_model(str(context.run_config["model"]), 0)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model
