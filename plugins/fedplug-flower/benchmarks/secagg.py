"""Measures compressed updates inside SecAgg+ beside Flower's own: bytes and seconds of a client.

    python benchmarks/secagg.py     # writes benchmarks/results/secagg.md

Both run Flower's protocol with ten clients, in turns, in this process. Messages pass through Flower's
serialization. In the last round a client drops out after it has shared its keys. Training
adds a random change.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
from flwr.app import Message
from flwr.client.mod import secaggplus_mod
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.task_identity import TaskIdentity

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fedplug_flower.secagg import CompressedSecAggMod, CompressedSecAggWorkflow
from local_flower import RUN, Model, Nodes
from local_secagg import MASKED, Training, client_app, configs, losing

from fedplug.diagnostics.environment import environment

CLIENTS, ROUNDS, LOST = 10, 5, 7
ENCODERS = (f"sharedk(0.01, clients={CLIENTS})", f"sharedk(0.01, clients={CLIENTS}, bits=15)")
SIZES = (62_006, 1_000_000)
"""Parameters of the models, in one array. Flwr's quickstart-pytorch has as many as the first."""

RESULTS = Path(__file__).parent / "results" / "secagg.md"


class Measured(Nodes):
    """Nodes that count the bytes of their messages and the processor's seconds, without serialization."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.clear()

    def clear(self) -> None:
        """Begins to count again."""
        self.seconds: dict[int, float] = defaultdict(float)
        self.up: dict[int, int] = defaultdict(int)
        self.down: dict[int, int] = defaultdict(int)
        self.masked: dict[int, int] = defaultdict(int)

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        self.down[node] += bytes_of(message)
        begin = time.process_time()
        reply = super()._answer(message)
        self.seconds[node] += time.process_time() - begin
        self.up[node] += bytes_of(reply)
        self.masked[node] += sum(map(len, configs(reply).get(MASKED, [])))
        return reply


class Variant:
    """A configuration and its measurements, one for each round."""

    def __init__(self, name: str, model: Model, encoder: str | None, folder: Path) -> None:
        self.name, self.nodes = name, Measured(folder)
        mod: Any = secaggplus_mod if encoder is None else CompressedSecAggMod()
        changes = {node: random_model(model, node) for node in range(1, CLIENTS + 1)}
        for node in changes:
            self.nodes.add(node, app=client_app(lambda node, _: changes[node], [mod]))
        workflow = (
            SecAggPlusWorkflow(1.0, 0.6) if encoder is None else CompressedSecAggWorkflow(1.0, 0.6, encoder)
        )
        self.training = Training(self.nodes, workflow, model)
        self.client: list[float] = []
        self.server: list[float] = []

    def round(self, number: int) -> None:
        """Runs and measures one round."""
        nodes = self.nodes
        nodes.clear()
        nodes.on_the_way = losing(*[(LOST, MASKED)] * (number == ROUNDS))
        begin = time.process_time()
        self.training.round(number)
        self.client.append(statistics.median(nodes.seconds.values()))
        self.server.append(time.process_time() - begin - sum(nodes.seconds.values()))


def random_model(like: Model, seed: int) -> Model:
    """Returns random arrays with the shapes of a model."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.01, array.shape).astype(np.float32) for name, array in like.items()}


def bytes_of(message: Message) -> int:
    """Returns the bytes of all objects that Flower sends for a message."""
    return sum(len(found.deflate()) for found in get_all_nested_objects(message).values())


def main() -> None:
    """Measures and writes the table."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
    tables = [table(size) for size in SIZES]
    RESULTS.write_text(report(tables), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


def table(size: int) -> str:
    """Trains a model in all variants, in turns, and returns their table."""
    model = random_model({"kernel": np.empty(size)}, seed=0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        variants = [
            Variant(encoder or "SecAgg+", model, encoder, Path(folder) / str(place))
            for place, encoder in enumerate([None, *ENCODERS])
        ]
        for number in range(1, ROUNDS + 1):
            for variant in variants[:: 1 if number % 2 else -1]:
                variant.round(number)
    rows = [row(variant, variants[0]) for variant in variants]
    return "\n".join([f"## {size:,} parameters", "", *HEAD, *rows])


HEAD = (
    "| | masked vector, bytes | times fewer | all a client sends, bytes | times fewer | receives, bytes "
    "| client, to plain | server, to plain |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
)


def row(variant: Variant, plain: Variant) -> str:
    """Returns a row of the table: the last round's client 1, which did not drop out."""
    name = "SecAgg+" if variant is plain else f"`{variant.name}`"
    masked, sent = variant.nodes.masked[1], variant.nodes.up[1]
    cells = [
        name,
        f"{masked:,}",
        f"{plain.nodes.masked[1] / masked:.0f}",
        f"{sent:,}",
        f"{plain.nodes.up[1] / sent:.1f}",
        f"{variant.nodes.down[1]:,}",
        f"{ratio(variant.client, plain.client):.3f}",
        f"{ratio(variant.server, plain.server):.3f}",
    ]
    return "| " + " | ".join(cells) + " |"


def ratio(mine: list[float], other: list[float]) -> float:
    """Returns the median ratio of the same rounds."""
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


def report(tables: list[str]) -> str:
    """Returns the page of results."""
    names = ("flwr", "numpy", "fedplug")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    facts = environment()
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return f"""# Compressed updates inside Flower's SecAgg+

Written by `python benchmarks/secagg.py` in `plugins/fedplug-flower`, on {facts["processor"]},
{facts["cores"]} cores, {facts["simd"]}; load {load}; {versions}.
{CLIENTS} clients and {ROUNDS} rounds of Flower's protocol; each secret has {CLIENTS} shares, of which 60 %
are needed. One client drops out of the last round after it has shared its keys. Bytes are those of one of
the other clients in that round.

{(chr(10) * 2).join(tables)}

- **masked vector**: what hides the update. Flower's has 8 bytes for each parameter.
- **all a client sends**: this, keys, shares, metrics and Flower's framing, in four stages. **receives**:
  mostly the uncompressed model, which Flower's workflow makes float64.
- **client**: processor time of a client for all four stages, without training and serialization; the median
  of the clients, then the median ratio to the same round of SecAgg+. The residual is in memory. **server**:
  the rest of the process, which includes Flower's serialization on both sides.
"""


if __name__ == "__main__":
    main()
