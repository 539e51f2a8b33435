"""A ClientApp whose updates depend only on the client and the round."""

from __future__ import annotations

import numpy as np
from fedplug_flower import CompressMod
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp(mods=[CompressMod()])


@app.train()
def train(message: Message, context: Context) -> Message:
    client = int(context.node_config["partition-id"])
    rng = np.random.default_rng([client, int(message.content["config"]["server-round"])])
    model = message.content["arrays"]
    trained = {
        name: Array(model[name].numpy() + rng.normal(size=model[name].shape).astype(np.float32))
        for name in model
    }
    metrics = MetricRecord({"num-examples": 10 + client})
    return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=message)
