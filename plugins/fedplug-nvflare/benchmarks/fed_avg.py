"""Measures bytes, seconds and the server's memory of a FedAvg round with fedplug and without.

    python benchmarks/fed_avg.py --machine "AMD EPYC, 2 cores, AVX-512" > benchmarks/results/fed_avg.md
    python benchmarks/fed_avg.py --both-ways  # only the second table, of bytes, which no load changes

Every job runs in NVFlare's simulator. The measured process contains the server and the part of every client
that starts its processes. With fewer processes than clients, each task starts a process, which takes most of
the time.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import math
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nvflare
from fedplug_nvflare import (
    FedplugAggregator,
    FedplugBroadcaster,
    FedplugDecoder,
    FedplugEncoder,
    FedplugReceiver,
)
from nvflare.client.config import TransferType
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.recipe.fedavg import FedAvgRecipe
from nvflare.recipe.sim_env import SimEnv
from server import Meter, ShapesPersistor
from shapes import MODELS

CODEC = "topk(0.01) | qsgd(8)"
WAYS = ("NVFlare alone", "`FedplugDecoder`", "`FedplugAggregator`")


HEAD = """\
# FedAvg in NVFlare {version}

`python benchmarks/fed_avg.py`, {machine}, `{codec}`. Bytes are those of the updates of a round. Server, ms:
from an update that NVFlare has deserialized to the sum, median. Memory: resident in the server's process at
most, above that before it loads the model; the ends of the simulated clients are in the same process. Where
there are fewer processes than clients, each task starts one, which is most of the seconds.

| model | clients (processes) | | bytes a round | s a round | server, ms | memory, MB |
| --- | --- | --- | --- | --- | --- | --- |"""

BOTH_WAYS = """
## Both ways

`python benchmarks/fed_avg.py --both-ways`, updates by `{codec}`. Bytes are those of a round, of all clients.
The model begins with normally distributed weights, and clients add heavy-tailed noise in place of training.
All clients take part in every round, so that later rounds send what one round has changed: 1 % of the entries
for each client, and all statistics.

| model | clients | model sent by | up | down, first round | down, later rounds | both ways, later |
| --- | --- | --- | --- | --- | --- | --- |"""

BROADCASTS = (None, "lossless", "auto", "bfp(5) | rans")


class Work(NamedTuple):
    """A block of the table."""

    model: str
    clients: int
    processes: int
    rounds: int


WORK = (Work("hello-pt", 4, 4, 6), Work("ResNet-18", 4, 4, 4), Work("ResNet-18", 50, 2, 1))


class Measured(NamedTuple):
    """Measurements of a job; of its median round unless stated otherwise."""

    uplink_bytes: float
    downlink_bytes: list[float]
    """The bytes of all clients' models by round."""
    seconds: float
    update_seconds: float
    memory: float
    """The peak over all rounds in bytes, less the memory in use when the job begins."""


def main(machine: str) -> None:
    """Prints the table."""
    print(HEAD.format(version=nvflare.__version__, machine=machine, codec=CODEC))
    for work in WORK:
        for way in WAYS:
            found = measure(work, way)
            print(
                f"| {work.model} | {work.clients} ({work.processes}) | {way} | {found.uplink_bytes:,.0f} "
                f"| {found.seconds:.1f} | {1e3 * found.update_seconds:.1f} "
                f"| {found.memory / 1e6:.0f} |",
                flush=True,
            )
    both_ways()


def both_ways() -> None:
    """Prints the table of bytes in both directions."""
    print(BOTH_WAYS.format(codec=CODEC))
    for work in WORK[:2]:
        dense = work.clients * _dense_bytes(work.model)
        for broadcast in BROADCASTS:
            found = measure(work, WAYS[2], broadcast)
            first, *later = found.downlink_bytes or [dense] * work.rounds
            down = statistics.median(later)
            print(
                f"| {work.model} | {work.clients} | {_named(broadcast)} | {found.uplink_bytes:,.0f} "
                f"| {first:,.0f} | {down:,.0f} | {2 * dense / (found.uplink_bytes + down):.1f}x fewer |",
                flush=True,
            )


def _named(broadcast: str | None) -> str:
    return "NVFlare alone" if broadcast is None else "`{}`".format(broadcast.replace("|", r"\|"))


def measure(work: Work, way: str, broadcast: str | None = None) -> Measured:
    """Runs one job. ``broadcast`` is the encoder of the model."""
    with tempfile.TemporaryDirectory() as folder:
        meter = Path(folder) / "meter.jsonl"
        recipe = FedAvgRecipe(
            name="measured",
            min_clients=work.clients,
            num_rounds=work.rounds,
            train_script=str(Path(__file__).with_name("client.py")),
            framework=FrameworkType.NUMPY,
            model_persistor=ShapesPersistor(work.model),
            params_transfer_type=TransferType.DIFF,
            aggregator=FedplugAggregator() if way == WAYS[2] else None,
        )
        if way != WAYS[0]:
            recipe.add_client_output_filter(FedplugEncoder(CODEC), tasks=["train"])
        if way == WAYS[1]:
            recipe.add_server_input_filter(FedplugDecoder(), tasks=["train"])
        if broadcast is not None:
            recipe.add_server_output_filter(FedplugBroadcaster(broadcast), tasks=["train"])
            recipe.add_client_input_filter(FedplugReceiver(), tasks=["train"])
        recipe.add_server_input_filter(Meter(str(meter)), tasks=["train"])
        recipe.add_server_file(str(Path(__file__).with_name("shapes.py")))
        environment = SimEnv(num_clients=work.clients, num_threads=work.processes, workspace_root=folder)
        with _output_to_stderr():
            result = Path(recipe.execute(environment).get_result())
        rounds = [json.loads(line) for line in meter.read_text().splitlines()]
        return Measured(
            uplink_bytes=work.clients * _dense_bytes(work.model) if way == WAYS[0] else _sent(result),
            downlink_bytes=_received(result),
            seconds=statistics.median(one["seconds"] for one in rounds),
            update_seconds=statistics.median(one["update_seconds"] for one in rounds),
            memory=rounds[-1]["memory"],
        )


def _dense_bytes(model: str) -> int:
    return 4 * sum(math.prod(shape) for shape in MODELS[model].values())


def _sent(result: Path) -> float:
    """Returns the bytes of all clients' updates in the median round, from the logs of the encoders."""
    rounds: collections.Counter[int] = collections.Counter()
    for log in result.glob("site-*/log.txt"):
        for round_num, sent in re.findall(r"update (\d+)-\w+: (\d+) bytes instead", log.read_text()):
            rounds[int(round_num)] += int(sent)
    return statistics.median(rounds.values())


def _received(result: Path) -> list[float]:
    """Returns the bytes of all clients' models by round, from the logs of the receivers."""
    logs = [log.read_text() for log in result.glob("site-*/log.txt")]
    found = [re.findall(r"model \w+ \(\w+\): (\d+) bytes instead", log) for log in logs]
    return [float(sum(map(int, sizes))) for sizes in zip(*found, strict=True)]


@contextlib.contextmanager
def _output_to_stderr() -> Iterator[None]:
    """Sends the output of the simulator, a separate process that inherits this one's, to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
        sys.stdout.flush()
    finally:
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--machine", help="what the table says it was measured on")
    what.add_argument("--both-ways", action="store_true", help="print only the bytes in both directions")
    arguments = parser.parse_args()
    if arguments.both_ways:
        both_ways()
    else:
        main(arguments.machine)
