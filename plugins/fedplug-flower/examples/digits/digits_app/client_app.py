"""The ClientApp; only the mod is specific to fedplug."""

from __future__ import annotations

from fedplug_flower import CompressMod
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app import task

app = ClientApp(mods=[CompressMod()])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Trains on the images of this node."""
    client, clients = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    examples = task.train_examples(client, clients)
    model = {name: array.numpy() for name, array in message.content["arrays"].items()}
    loss = task.train(
        model,
        examples,
        epochs=int(context.run_config["local-epochs"]),
        rate=float(context.run_config["learning-rate"]),
        seed=1000 * client + int(message.content["config"]["server-round"]),
    )
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(array) for name, array in model.items()}),
            "metrics": MetricRecord({"train-loss": loss, "num-examples": len(examples[1])}),
        }
    )
    return Message(content, reply_to=message)
