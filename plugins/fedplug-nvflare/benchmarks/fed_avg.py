"""Measures bytes, seconds and the server's memory of a FedAvg round with fedplug and without.

    python benchmarks/fed_avg.py     # writes benchmarks/results/fed_avg.md

Every job runs in NVFlare's simulator. The measured process contains the server and the part of every client
that starts its processes. With fewer processes than clients, each task starts a process, which takes most of
the time.
"""

from __future__ import annotations

import collections
import json
import math
import re
import statistics
import tempfile
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

from fedplug.diagnostics.environment import environment

CODEC = "topk(0.01) | qsgd(8)"
WAYS = ("NVFlare alone", "`FedplugDecoder`", "`FedplugAggregator`")

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


def main() -> None:
    """Measures and writes the tables."""
    facts = environment()
    page = f"""# FedAvg in NVFlare {nvflare.__version__}

`python benchmarks/fed_avg.py`, {facts["processor"]}, {facts["cores"]} cores, {facts["simd"]}, `{CODEC}`.
Bytes are those of the updates of a round. Server, ms: from an update that NVFlare has deserialized to the
sum, median. Memory: resident in the server's process at most, above that before it loads the model; the ends
of the simulated clients are in the same process. Where there are fewer processes than clients, each task
starts one, which is most of the seconds.

| model | clients (processes) | | bytes a round | s a round | server, ms | memory, MB |
| --- | --- | --- | --- | --- | --- | --- |
{chr(10).join(_row(work, way) for work in WORK for way in WAYS)}

## Both ways

Updates by `{CODEC}`. Bytes are those of a round, of all clients. The model begins with normally distributed
weights, and clients add heavy-tailed noise in place of training. All clients take part in every round, so
that later rounds send what one round has changed: 1 % of the entries for each client, and all statistics.

| model | clients | model sent by | up | down, first round | down, later rounds | both ways, later |
| --- | --- | --- | --- | --- | --- | --- |
{chr(10).join(_row_both_ways(work, broadcast) for work in WORK[:2] for broadcast in BROADCASTS)}
"""
    (Path(__file__).parent / "results" / "fed_avg.md").write_text(page, encoding="utf-8")


def _row(work: Work, way: str) -> str:
    found = measure(work, way)
    return (
        f"| {work.model} | {work.clients} ({work.processes}) | {way} | {found.uplink_bytes:,.0f} "
        f"| {found.seconds:.1f} | {1e3 * found.update_seconds:.1f} | {found.memory / 1e6:.0f} |"
    )


def _row_both_ways(work: Work, broadcast: str | None) -> str:
    found, dense = measure(work, WAYS[2], broadcast), work.clients * _dense_bytes(work.model)
    first, *later = found.downlink_bytes or [dense] * work.rounds
    down = statistics.median(later)
    name = "NVFlare alone" if broadcast is None else "`{}`".format(broadcast.replace("|", r"\|"))
    return (
        f"| {work.model} | {work.clients} | {name} | {found.uplink_bytes:,.0f} | {first:,.0f} | {down:,.0f} "
        f"| {2 * dense / (found.uplink_bytes + down):.1f}x fewer |"
    )


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
        simulator = SimEnv(num_clients=work.clients, num_threads=work.processes, workspace_root=folder)
        result = Path(recipe.execute(simulator).get_result())
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


if __name__ == "__main__":
    main()
