"""Compares plain FedAvg with compressed updates in Flower's PyTorch quickstart, with 50 clients.

    pip install torch
    python benchmarks/quickstart.py     # writes benchmarks/results/quickstart.md

The model is that of flwr's quickstart-pytorch. Random images of the same shape replace its data, CIFAR-10:
each class is a smooth pattern with noise, and each client has mostly two of the ten classes. All
configurations train in turns, round by round, in this process. Messages pass through Flower's serialization.
"""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import logging
import os
import platform
import statistics
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fedplug_flower import Compressed, CompressMod
from local_flower import RUN, Nodes

CLIENTS, ROUNDS, IMAGES, TEST_IMAGES, BATCH, RATE = 50, 12, 100, 1000, 32, 0.05
ENCODER = "topk(0.01, scope='model') | qsgd(8)"
MEMORY = Path("/dev/shm")
LAST = 4
"""Number of last rounds over which the noisy loss and accuracy are averaged."""

RESULTS = Path(__file__).parent / "results" / "quickstart.md"


class Net(nn.Module):
    """The network of flwr's quickstart-pytorch, from 'PyTorch: A 60 Minute Blitz'."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the scores of ten classes for images."""
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = x.view(-1, 16 * 5 * 5)
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


def images(labels: torch.Tensor, seed: int) -> torch.Tensor:
    """Returns a smooth pattern for each label, with noise twice as strong."""
    patterns = torch.randn(10, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    smooth = nn.functional.interpolate(patterns, size=32, mode="bilinear")
    noise = torch.randn(len(labels), 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    return smooth[labels] + 2 * noise


@functools.cache
def client_images(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images and labels of a client; four of five images belong to two classes."""
    rng = np.random.default_rng(client)
    own = rng.choice(10, 2, replace=False)
    labels = np.where(rng.random(IMAGES) < 0.8, rng.choice(own, IMAGES), rng.integers(0, 10, IMAGES))
    found = torch.from_numpy(labels)
    return images(found, 1 + client), found


def client_app(compressed: bool) -> ClientApp:
    """Returns a ClientApp with the quickstart's training: one epoch of SGD with momentum."""
    app = ClientApp(mods=[CompressMod()] if compressed else [])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        net = Net()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = client_images(context.node_id)
        torch.manual_seed(1000 * context.node_id + int(message.content["config"]["server-round"]))
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
        losses = []
        for batch in torch.randperm(IMAGES).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        metrics = MetricRecord({"train_loss": statistics.fmean(losses), "num-examples": IMAGES})
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
        net = Net()
        net.load_state_dict(self.model.to_torch_state_dict())
        labels = torch.arange(TEST_IMAGES) % 10
        with torch.no_grad():
            scores = net(images(labels, 0))
        loss = nn.functional.cross_entropy(scores, labels).item()
        return loss, (scores.argmax(1) == labels).float().mean().item()


def main() -> None:
    """Trains and writes the table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
    start = Net().state_dict()
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
    entries = sum(value.numel() for value in Net().state_dict().values())
    return f"""# Flower's PyTorch quickstart, {CLIENTS} clients

Written by `python benchmarks/quickstart.py` in `plugins/fedplug-flower`, on {machine()};
{versions}.
The model has {entries:,} entries in {len(Net().state_dict())} arrays. {ROUNDS} rounds, one epoch on {IMAGES}
images each, all clients in every round, in one process, one after the other. Images are synthetic, of
CIFAR-10's shape.

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
    """Returns the kernel's name of the processor."""
    found = [
        line
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith(("model name", "flags"))
    ]
    name = "AMD EPYC" if "AMD EPYC" in found[0] else found[0].partition(": ")[2]
    simd = "AVX-512" if "avx512f" in found[1] else "AVX2" if "avx2" in found[1] else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {simd}"


if __name__ == "__main__":
    main()
