"""The ClientApp; only the mod is specific to fedplug."""

from __future__ import annotations

import batch_norm_task as task
import torch
from fedplug_flower import CompressMod
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp(mods=[CompressMod()])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Trains on the images of this node."""
    torch.set_num_threads(1)
    client, clients = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    model = received(message, context)
    round_num = 100 * int(context.run_config["seed"]) + int(message.content["config"]["server-round"])
    examples = task.train(model, client, round_num, clients)
    metrics = MetricRecord({"num-examples": examples})
    return Message(
        RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message
    )


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Tests the model that this node received."""
    torch.set_num_threads(1)
    found = {"num-examples": 1, "accuracy": task.evaluate(received(message, context))}
    return Message(RecordDict({"metrics": MetricRecord(found)}), reply_to=message)


def received(message: Message, context: Context) -> torch.nn.Module:
    """Returns a model with the message's weights."""
    model = task.Network(str(context.run_config["model"]))
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model
