"""The ServerApp: FedAvg, plain or compressed, with a record of each round."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

import batch_norm_task as task
from fedplug_flower import Compressed
from flwr.app import ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains, and writes a line of JSON for each round."""
    config = context.run_config
    name = str(config["model"])
    traffic = counted(grid)
    lines: list[dict[str, object]] = []
    begin = time.monotonic()

    def evaluated(round_num: int, arrays: ArrayRecord) -> MetricRecord:
        model = task.Network(name)
        model.load_state_dict(arrays.to_torch_state_dict())
        found = {
            "seconds": time.monotonic() - begin,
            "accuracy": task.evaluate(model),
            "bits": hashlib.sha256(b"".join(array.data for array in arrays.values())).hexdigest(),
            **traffic,
        }
        lines.append(found)
        return MetricRecord({"accuracy": found["accuracy"]})

    fraction = float(config["fraction"])
    strategy: Strategy = FedAvg(fraction_train=fraction, fraction_evaluate=fraction)
    encoder, broadcast_encoder = str(config["encoder"]) or None, str(config["broadcast-encoder"]) or None
    if encoder or broadcast_encoder:
        strategy = Compressed(strategy, encoder, broadcast_encoder=broadcast_encoder)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(task.Network(name).state_dict()),
        num_rounds=int(config["rounds"]),
        evaluate_fn=evaluated,
    )
    done = Path(str(config["results"]))
    partial = done.with_suffix(".partial")
    partial.write_text(json.dumps(lines), encoding="utf-8")
    partial.rename(done)


def counted(grid: Grid) -> dict[str, int]:
    """Counts the bytes of all records in messages, by Flower's count, down to the nodes and up."""
    traffic = {"down": 0, "up": 0}
    send_and_receive = grid.send_and_receive

    def counting(messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        sent = list(messages)
        traffic["down"] += sum(map(size, sent))
        replies = list(send_and_receive(sent, timeout=timeout))
        assert not any(reply.has_error() for reply in replies), [reply.error for reply in replies]
        traffic["up"] += sum(map(size, replies))
        return replies

    grid.send_and_receive = counting  # type: ignore[method-assign]
    return traffic


def size(message: Message) -> int:
    """Returns the bytes of a message's records."""
    return sum(record.count_bytes() for record in message.content.values())
