"""Compares plain Flower with compressed models and updates: bytes both ways, seconds and accuracy.

    pip install torch
    python benchmarks/both_ways.py     # writes benchmarks/results/both_ways.md

All runs train the app in ``both_ways/``: with 20 nodes in this process, which receive and reply through
Flower's serialization, and on a SuperLink with two SuperNodes, each behind a link of a limited rate. Results
of runs are kept in ``--runs`` and not measured again.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import math
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
sys.path.extend(
    str(Path(__file__).parent / name) for name in ("both_ways", "../tests", "../../../benchmarks")
)

import torch
from both_ways_app import client_app, server_app
from flwr.app import Context, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from link import Link
from local_flower import RUN, Nodes
from processes import Flower

from fedplug.diagnostics.environment import processor

HERE = Path(__file__).parent
APP = HERE / "both_ways"
PATH = [HERE, HERE.parents[2] / "benchmarks"]
"""Folders with the modules of the app's models."""

RESULTS = HERE / "results" / "both_ways.md"
SECONDS = 3600
"""Timeout of a run."""

LAST = 5
"""Number of last rounds whose accuracy is averaged."""

SEEDS = 3

Rounds = list[dict[str, Any]]


class Way(NamedTuple):
    """How messages are encoded: updates by ``encoder``, models by ``broadcast_encoder``, or not."""

    name: str
    encoder: str = ""
    broadcast_encoder: str = ""


PLAIN = Way("plain Flower")
LOSSLESS = Way("models `lossless`, updates plain", "", "lossless")
AUTO = Way("`auto` both ways", "auto", "auto")
WAYS = (PLAIN, LOSSLESS, AUTO)


class Run(NamedTuple):
    """One training. ``rate`` is that of each SuperNode's link in Mb/s. None: 20 nodes in this process."""

    model: str
    way: Way
    rounds: int
    rate: float | None = None
    seed: int = 0

    @property
    def key(self) -> str:
        """The name of the run's file."""
        way = self.way.name.replace("`", "").split()[0]
        return f"{self.rate}-{self.model}-{way}-{self.rounds}-{self.seed}.json".replace(" ", "_")

    def config(self, results: Path) -> dict[str, str | int | float]:
        """Returns the configuration of the app."""
        return {
            "model": self.model,
            "encoder": self.way.encoder,
            "broadcast-encoder": self.way.broadcast_encoder,
            "results": str(results),
            "rounds": self.rounds,
            "seed": self.seed,
            "fraction": 0.25 if self.rate is None else 1.0,
        }


ROUNDS = 60
LINKED = [("CNN", 8, math.inf), ("wide CNN", 5, 100), ("wide CNN", 5, 10)]
"""Model, rounds, and the rate of each SuperNode's link in Mb/s."""


def measure(run: Run, folder: Path) -> Rounds:
    """Returns the lines of a run. Trains unless they exist."""
    results = (folder / run.key).resolve()
    if not results.exists():
        train = in_process if run.rate is None else connect
        with tempfile.TemporaryDirectory() as place:
            train(run, Path(place), results)
        print(run.key, json.loads(results.read_text(encoding="utf-8"))[-1], flush=True)
    lines: Rounds = json.loads(results.read_text(encoding="utf-8"))
    assert len(lines) == run.rounds + 1
    return lines


def in_process(run: Run, folder: Path, results: Path) -> None:
    """Runs the app with 20 nodes in this process. All ways draw the same nodes."""
    random.seed(run.seed)
    nodes = Nodes(folder)
    nodes.run_config = run.config(results)
    for client in range(20):
        nodes.add(client + 1, app=client_app.app, **{"partition-id": client, "num-partitions": 20})
    server_app.main(nodes, Context(RUN, 0, {}, RecordDict(), nodes.run_config))


def connect(run: Run, folder: Path, results: Path) -> None:
    """Runs a SuperLink and two SuperNodes behind links, and adds the links' bytes to the last line."""
    with Flower(folder) as flower:
        port = int(flower.address.rpartition(":")[2])
        links = [Link(port, 1e6 * float(run.rate)) for _ in range(2)]
        for node, link in enumerate(links):
            flower.start_node(f"node{node}", node, 2, link.address)
        before = total(links)
        config = " ".join(f"{name}={value!r}" for name, value in run.config(results).items())
        flower.run(APP, config)
        flower.wait(lambda: results.exists() or "Traceback" in flower.log("run"), SECONDS)
        if not results.exists():
            raise RuntimeError(flower.log("run"))
        after = total(links)
    lines = json.loads(results.read_text(encoding="utf-8"))
    lines[-1]["link"] = {way: after[way] - before[way] for way in after}
    results.write_text(json.dumps(lines), encoding="utf-8")


def total(links: list[Link]) -> dict[str, int]:
    """Returns the bytes of all links, by direction."""
    return {way: sum(link.bytes[way] for link in links) for way in ("down", "up")}


def row(way: Way, folder: Path) -> str:
    """Returns the row of a way with 20 nodes."""
    runs = [Run("CNN", way, ROUNDS, seed=seed) for seed in range(1 if way == LOSSLESS else SEEDS)]
    trainings = [measure(run, folder) for run in runs]
    plain = [measure(run._replace(way=PLAIN), folder) for run in runs]
    (down, up), (down_plain, up_plain) = mean_bytes(trainings), mean_bytes(plain)
    mine, theirs = (statistics.fmean(accuracies(each)) for each in (trainings, plain))
    cells = [
        way.name,
        f"{down / ROUNDS:,.0f}",
        f"{up / ROUNDS:,.0f}",
        f"{down_plain / down:.1f}x",
        f"{(down_plain + up_plain) / (down + up):.1f}x",
        f"{mine:.1f}",
        *(["", ""] if way == PLAIN else [f"{theirs - mine:.1f}", same_bits(trainings, plain)]),
    ]
    return "| " + " | ".join(cells) + " |"


def mean_bytes(trainings: list[Rounds]) -> tuple[float, float]:
    """Returns the bytes of a training down and up."""
    down, up = (statistics.fmean(lines[-1][way] for lines in trainings) for way in ("down", "up"))
    return down, up


def same_bits(trainings: list[Rounds], plain: list[Rounds]) -> str:
    """Returns whether the models have the same bits after each round."""
    mine, theirs = ([[line["bits"] for line in lines] for lines in each] for each in (trainings, plain))
    return "yes" if mine == theirs else "no"


def accuracies(trainings: list[Rounds]) -> list[float]:
    """Returns the accuracy of each training in percent, the mean of its last rounds."""
    return [100 * statistics.fmean(line["accuracy"] for line in lines[-LAST:]) for lines in trainings]


def linked_row(run: Run, folder: Path) -> str:
    """Returns the row of a run on a SuperLink."""
    lines, plain = measure(run, folder), measure(run._replace(way=PLAIN), folder)
    (goal,) = accuracies([plain])
    reached = next((line["seconds"] for line in lines if 100 * line["accuracy"] >= goal - 1), None)
    link = sum(lines[-1]["link"].values())
    cells = [
        run.model,
        "no limit" if run.rate == math.inf else f"{run.rate} Mb/s",
        run.way.name,
        f"{sum(mean_bytes([lines])) / run.rounds:,.0f}",
        f"{link / run.rounds:,.0f}",
        f"{sum(plain[-1]['link'].values()) / link:.1f}x",
        f"{lines[-1]['seconds'] / run.rounds:.1f}",
        "not reached" if reached is None else f"{reached:.0f}",
        f"{accuracies([lines])[0]:.1f}",
        "" if run.way == PLAIN else same_bits([lines], [plain]),
    ]
    return "| " + " | ".join(cells) + " |"


def page(folder: Path) -> str:
    """Returns the page of results."""
    packages = ("flwr", "torch", "fedplug")
    machine = f"{processor()}, {os.cpu_count()} cores"
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    linked = [Run(model, way, rounds, rate) for model, rounds, rate in LINKED for way in WAYS]
    return f"""# Flower, compressed both ways

Written by `python benchmarks/both_ways.py` in `plugins/fedplug-flower`, on {machine}, shared with other
work; {versions}.

**CNN** has two convolutions and a hidden layer, each with batch normalization (118,570 parameters), and
**wide CNN** the same with 2,048 hidden units (2,142,538); both learn scikit-learn's digits. Each node trains
for one epoch per round. Accuracy is that of the server's model on held-out images.

## 20 nodes, a quarter of them in each round

Five nodes train the CNN and five evaluate it in each round. The nodes answer in one process, through
Flower's serialization. {ROUNDS} rounds, means of {SEEDS} seeds; `lossless` has one seed, as its bits are
those of plain Flower.

| messages | down | up | fewer down | fewer | accuracy, % | below | equal bits |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
{chr(10).join(row(way, folder) for way in WAYS)}

- **down, up**: bytes of all records of the messages of a round, by Flower's count, to and from all nodes.
  **fewer**: both ways together.
- **accuracy**: the mean of the last {LAST} rounds; **below**: points below plain Flower.
- **equal bits**: whether the model has the bits of plain Flower's after every round.

## A SuperLink with two SuperNodes

Both nodes train and evaluate in each round, each behind a link with this rate in each direction.

| model | link | messages | records | bytes | fewer | s a round | s to accuracy | accuracy, % | equal bits |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
{chr(10).join(linked_row(run, folder) for run in linked)}

- **records**: as above, per round. **bytes**: all bytes on both links, both ways, per round, with Flower's
  requests and framing; **fewer** is their ratio.
- **s to accuracy**: seconds until the accuracy is first within a point of the final one of plain Flower on
  this link. Flower asks for replies every three seconds, twice per round, and starts a process per message.
"""


def main() -> None:
    """Runs the missing measurements, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/both_ways"), help="the folder of runs")
    folder = parser.parse_args().runs
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, PATH))  # of Flower's processes
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
    RESULTS.write_text(page(folder), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
