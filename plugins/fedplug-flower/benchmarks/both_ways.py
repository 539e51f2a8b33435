"""Compares plain Flower with compressed models and updates: bytes both ways, seconds and accuracy.

    pip install torch
    python benchmarks/both_ways.py     # writes benchmarks/results/both_ways.md

All runs train the app in ``both_ways/``: with 20 nodes in this process, which receive and reply through
Flower's serialization; in Flower's simulation, and on a SuperLink with two SuperNodes, each behind a link of
a limited rate. Results of runs are kept in ``--runs`` and not measured again.
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

TEXTS = {"model", "messages", "equal bits"}
"""Columns that are not numbers."""

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
    """One training. ``place`` is "nodes", "simulation", or the rate of each SuperNode's link in Mb/s."""

    model: str
    way: Way
    rounds: int
    place: str | float
    seed: int = 0

    @property
    def key(self) -> str:
        """The name of the run's file."""
        way = self.way.name.replace("`", "").split()[0]
        return f"{self.place}-{self.model}-{way}-{self.rounds}-{self.seed}.json".replace(" ", "_")

    def config(self, results: Path) -> dict[str, Any]:
        """Returns the configuration of the app."""
        return {
            "model": self.model,
            "encoder": self.way.encoder,
            "broadcast-encoder": self.way.broadcast_encoder,
            "results": str(results),
            "rounds": self.rounds,
            "seed": self.seed,
            "fraction": 0.25 if isinstance(self.place, str) else 1.0,
        }


NODES = {"quickstart": 40, "CNN": 60}
"""Rounds by model."""

SIMULATED = {"quickstart": 5, "CNN": 5}
LINKED = [("quickstart", 10, math.inf), ("CNN", 8, math.inf), ("wide CNN", 5, 100), ("wide CNN", 5, 10)]
"""Model, rounds, and the rate of each SuperNode's link in Mb/s."""


def measure(run: Run, folder: Path) -> Rounds:
    """Returns the lines of a run. Trains unless they exist."""
    results = (folder / run.key).resolve()
    if not results.exists():
        train = {"nodes": in_process, "simulation": simulate}.get(str(run.place), connect)
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
        nodes.add(client + 1, client_app.app, **{"partition-id": client, "num-partitions": 20})
    server_app.main(nodes, Context(RUN, 0, {}, RecordDict(), nodes.run_config))


def simulate(run: Run, folder: Path, results: Path) -> None:
    """Runs Flower's simulation with 20 nodes."""
    options = ("--federation-config", "num-supernodes=20 client-resources-num-cpus=1")
    with Flower(folder, "--simulation") as flower:
        finish(flower, run, results, *options)


def connect(run: Run, folder: Path, results: Path) -> None:
    """Runs a SuperLink and two SuperNodes behind links, and adds the links' bytes to the last line."""
    with Flower(folder) as flower:
        port = int(flower.address.rpartition(":")[2])
        links = [Link(port, 1e6 * float(run.place)) for _ in range(2)]
        for node, link in enumerate(links):
            flower.start_node(f"node{node}", node, 2, link.address)
        before = total(links)
        finish(flower, run, results)
        after = total(links)
    lines = json.loads(results.read_text(encoding="utf-8"))
    lines[-1]["link"] = {way: after[way] - before[way] for way in after}
    results.write_text(json.dumps(lines), encoding="utf-8")


def finish(flower: Flower, run: Run, results: Path, *options: str) -> None:
    """Runs the app and waits for its results. Raises an error with its log if it fails."""
    config = " ".join(f"{name}={value!r}" for name, value in run.config(results).items())
    flower.run(APP, config, *options)
    flower.wait(lambda: results.exists() or "Traceback" in flower.log("run"), SECONDS)
    if not results.exists():
        raise RuntimeError(flower.log("run"))


def total(links: list[Link]) -> dict[str, int]:
    """Returns the bytes of all links, by direction."""
    return {way: sum(link.bytes[way] for link in links) for way in ("down", "up")}


def cells(runs: list[Run], folder: Path) -> dict[str, str]:
    """Returns the cells of a model and a way with 20 nodes, by column."""
    trainings = [measure(run, folder) for run in runs]
    plain = [measure(run._replace(way=PLAIN), folder) for run in runs]
    mine, theirs = (statistics.fmean(accuracies(each)) for each in (trainings, plain))
    rounds, is_plain = runs[0].rounds, runs[0].way == PLAIN
    down, up = mean_bytes(trainings)
    return {
        "model": runs[0].model,
        "messages": runs[0].way.name,
        "down": f"{down / rounds:,.0f}",
        "up": f"{up / rounds:,.0f}",
        "fewer down": f"{mean_bytes(plain)[0] / down:.1f}x",
        "fewer": f"{sum(mean_bytes(plain)) / (down + up):.1f}x",
        "s a round": f"{statistics.fmean(lines[-1]['seconds'] for lines in trainings) / rounds:.1f}",
        "accuracy, %": f"{mine:.1f}",
        "below": "" if is_plain else f"{theirs - mine:.1f}",
        "equal bits": "" if is_plain else "yes" if bits(trainings) == bits(plain) else "no",
    }


def mean_bytes(trainings: list[Rounds]) -> tuple[float, float]:
    """Returns the bytes of a training down and up."""
    down, up = (statistics.fmean(lines[-1][way] for lines in trainings) for way in ("down", "up"))
    return down, up


def bits(trainings: list[Rounds]) -> list[list[str]]:
    """Returns a checksum of the model after each round."""
    return [[line["bits"] for line in lines] for lines in trainings]


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
        "no limit" if run.place == math.inf else f"{run.place} Mb/s",
        run.way.name,
        f"{sum(mean_bytes([lines])) / run.rounds:,.0f}",
        f"{link / run.rounds:,.0f}",
        f"{sum(plain[-1]['link'].values()) / link:.1f}x",
        f"{lines[-1]['seconds'] / run.rounds:.1f}",
        "not reached" if reached is None else f"{reached:.0f}",
        f"{accuracies([lines])[0]:.1f}",
        "" if run.way == PLAIN else "yes" if bits([lines]) == bits([plain]) else "no",
    ]
    return "| " + " | ".join(cells) + " |"


def table(place: str, rounds_of: dict[str, int], seeds: int, folder: Path, without: set[str]) -> str:
    """Returns the table of all models and ways with 20 nodes, without some of its columns."""
    runs = [
        [Run(model, way, rounds, place, seed) for seed in range(1 if way == LOSSLESS else seeds)]
        for model, rounds in rounds_of.items()
        for way in WAYS
    ]
    rows = [cells(each, folder) for each in runs]
    columns = [column for column in rows[0] if column not in without]
    lines = [columns, ["---" if column in TEXTS else "---:" for column in columns]]
    lines += [[row[column] for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(folder: Path) -> str:
    """Returns the page of results."""
    packages = ("flwr", "torch", "fedplug")
    machine = f"{processor()}, {os.cpu_count()} cores"
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    linked = [Run(model, way, rounds, rate) for model, rounds, rate in LINKED for way in WAYS]
    return f"""# Flower, compressed both ways

Written by `python benchmarks/both_ways.py` in `plugins/fedplug-flower`, on {machine}, shared with other
work; {versions}.

**quickstart** is the network of Flower's PyTorch quickstart (62,006 parameters) on synthetic images of
CIFAR-10's shape. **CNN** has two convolutions and a hidden layer, each with batch normalization (118,570
parameters), and **wide CNN** the same with 2,048 hidden units (2,142,538); both learn scikit-learn's digits.
Each node trains for one epoch per round. Accuracy is that of the server's model on held-out images.

## 20 nodes, a quarter of them in each round

Five nodes train and five evaluate in each round. The nodes answer in one process, through Flower's
serialization. {NODES["quickstart"]} and {NODES["CNN"]} rounds, means of {SEEDS} seeds; `lossless` has one
seed, as its bits are those of plain Flower.

{table("nodes", NODES, SEEDS, folder, {"s a round"})}

- **down, up**: bytes of all records of the messages of a round, by Flower's count, to and from all nodes.
  **fewer**: both ways together.
- **accuracy**: the mean of the last {LAST} rounds; **below**: points below plain Flower.
- **equal bits**: whether the model has the bits of plain Flower's after every round.

## The same in Flower's simulation

The same messages with Flower's own processes: {SIMULATED["CNN"]} rounds, of which the first sends snapshots.

{table("simulation", SIMULATED, 1, folder, {"accuracy, %", "below", "equal bits"})}

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
