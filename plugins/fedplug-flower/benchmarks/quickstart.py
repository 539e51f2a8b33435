"""Compares plain FedAvg with compressed updates in Flower's PyTorch quickstart, with 50 clients.

    pip install torch
    python benchmarks/quickstart.py     # writes benchmarks/results/quickstart.md

The model is that of flwr's quickstart-pytorch. Random images of the same shape replace its data, CIFAR-10:
each class is a smooth pattern with noise, and each client has mostly two of the ten classes. All
configurations train in turns, round by round, in this process. Messages pass through Flower's serialization.
"""

from __future__ import annotations

import gc
import importlib.metadata
import logging
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import quickstart_task as task
from fedplug_flower import Compressed, CompressMod
from local_flower import RUN, Nodes

from fedplug.diagnostics.environment import environment

CLIENTS, ROUNDS = 50, 12
ENCODER = "topk(0.01, scope='model') | qsgd(8)"
MEMORY = Path("/dev/shm")
LAST = 4
"""Number of last rounds over which the noisy loss and accuracy are averaged."""

RESULTS = Path(__file__).parent / "results" / "quickstart.md"


def client_app(compressed: bool) -> ClientApp:
    """Returns a ClientApp with the quickstart's training: one epoch of SGD with momentum."""
    app = ClientApp(mods=[CompressMod()] if compressed else [])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        net = task.Net()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        loss = task.train(net, context.node_id, int(message.content["config"]["server-round"]))
        metrics = MetricRecord({"train_loss": loss, "num-examples": task.IMAGES})
        content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


@dataclass
class Training:
    """A configuration and its measurements."""

    name: str
    strategy: Strategy
    nodes: Nodes
    model: ArrayRecord
    arrays: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    aggregation: list[float] = field(default_factory=list)
    tested: list[tuple[float, float]] = field(default_factory=list)

    def round(self, number: int) -> None:
        """Runs and times one round, then tests the model."""
        begin = time.perf_counter()
        replies = self.nodes.send_and_receive(self.configured(number))
        received = time.perf_counter()
        arrays, _ = self.strategy.aggregate_train(number, replies)
        end = time.perf_counter()
        assert arrays is not None
        self.model = arrays
        self.seconds.append(end - begin)
        self.aggregation.append(end - received)
        self.tested.append(self.test())

    def memory(self, number: int) -> int:
        """Runs one more round; returns the server's peak memory in bytes, with the replies."""
        sizes: list[list[int]] = []
        arrived: list[tuple[str, dict[str, bytes]]] = []

        def keep(reply: Message) -> None:
            objects = {key: found.deflate() for key, found in get_all_nested_objects(reply).items()}
            arrived.append((reply.object_id, objects))
            data = [
                len(array.data)
                for record in reply.content.array_records.values()
                for array in record.values()
            ]
            sizes.append([sum(data), sum(map(len, objects.values()))])

        self.nodes.on_the_way = keep
        self.nodes.send_and_receive(self.configured(number))
        self.arrays, self.messages = map(list, zip(*sizes, strict=True))
        gc.collect()
        tracemalloc.start()
        replies = [inflate_object_from_contents(key, objects) for key, objects in arrived]
        self.strategy.aggregate_train(number, replies)  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    def configured(self, number: int) -> list[Message]:
        """Returns the messages of a round."""
        return list(self.strategy.configure_train(number, self.model, ConfigRecord(), self.nodes))

    def test(self) -> tuple[float, float]:
        """Returns loss and accuracy on held-out images."""
        net = task.Net()
        net.load_state_dict(self.model.to_torch_state_dict())
        return task.evaluate(net)


def main() -> None:
    """Trains and writes the table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
    start = task.Net().state_dict()
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        trainings = [
            training("plain FedAvg", start, None),
            training(f"`{ENCODER}`", start, Path(disk)),
            training("the same, states in memory", start, Path(memory)),
        ]
        for number in range(1, ROUNDS + 1):
            for each in trainings[:: 1 if number % 2 else -1]:
                each.round(number)
            print(number, *(f"{each.name} {each.tested[-1]}" for each in trainings), flush=True)
        results = [row(each, each.memory(ROUNDS + 1), trainings[0]) for each in trainings]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(report(results), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


def training(name: str, start: dict[str, torch.Tensor], states: Path | None) -> Training:
    """Returns a training before its first round; compressed if there is a folder for states."""
    strategy: Strategy = FedAvg(fraction_evaluate=0.0)
    if states:
        strategy = Compressed(strategy, ENCODER)
    nodes = Nodes(states or Path())
    for node in range(1, CLIENTS + 1):
        nodes.add(node, client_app(states is not None))
    return Training(name, strategy, nodes, ArrayRecord(start))


def row(each: Training, memory: int, plain: Training) -> str:
    """Returns a row of the table."""
    ratios = [mine / other for mine, other in zip(each.seconds, plain.seconds, strict=True)]
    arrays, messages = sum(each.arrays), sum(each.messages)
    cells = [
        each.name.replace("|", "\\|"),
        f"{arrays:,}",
        f"{messages:,}",
        f"{sum(plain.messages) / messages:.1f}",
        f"{statistics.median(each.seconds):.2f}",
        f"{statistics.median(ratios):.2f}",
        f"{1000 * statistics.median(each.aggregation):.0f}",
        f"{memory / 2**20:.2f}",
        f"{statistics.fmean(loss for loss, _ in each.tested[-LAST:]):.3f}",
        f"{100 * statistics.fmean(accuracy for _, accuracy in each.tested[-LAST:]):.1f} %",
    ]
    return "| " + " | ".join(cells) + " |"


def report(rows: list[str]) -> str:
    """Returns the page of results."""
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("flwr", "torch", "numpy", "fedplug")
    )
    head = (
        "| updates | arrays, bytes | messages, bytes | times fewer | round, s | to plain | aggregation, ms | "
    )
    head += "server memory, MiB | test loss | test accuracy |"
    entries = sum(value.numel() for value in task.Net().state_dict().values())
    return f"""# Flower's PyTorch quickstart, {CLIENTS} clients

Written by `python benchmarks/quickstart.py` in `plugins/fedplug-flower`, on {machine()};
{versions}.
The model has {entries:,} entries in {len(task.Net().state_dict())} arrays. {ROUNDS} rounds, one epoch on
{task.IMAGES} images each, all clients in every round, in one process, one after the other. Images are
synthetic, of CIFAR-10's shape.

{head}
|{" --- |" * 10}
{chr(10).join(rows)}

- **arrays**: what the clients of one round send in `ArrayRecord`s. **messages**: all that Flower sends of
  their replies, with names, metrics and its own framing, of which **times fewer** is the ratio to plain.
- **round**: the median; training of all clients, Flower's serialization both ways, the clients' durable
  state, aggregation. **to plain**: the median ratio to the same round of plain FedAvg. **aggregation**: the
  server's part.
- **states in memory**: in `/dev/shm`, as for a simulation; what it saves is the disk's syncs, a commit for
  each client.
- **server memory**: the replies and what aggregating them allocates, at the peak (`tracemalloc`).
- **test**: means of the last {LAST} rounds.
"""


def machine() -> str:
    """Returns the processor, its cores and the vector instructions that are used."""
    facts = environment()
    return f"{facts['processor']}, {facts['cores']} cores, {facts['simd']}"


if __name__ == "__main__":
    main()
