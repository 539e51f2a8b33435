"""Sends the adapters of a fine-tuned Llama through the codec and through Flower, and counts the bytes.

    python benchmarks/lora.py     # writes benchmarks/results/lora.md

The shapes are those that PEFT makes for Llama 3.2 1B with r = 32 and all linear layers. The changes are
random, because the model itself cannot be trained here: only sizes are measured, no accuracy.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
import tempfile
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import sys

import numpy as np
from flwr.app import ConfigRecord, Message
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.task_identity import TaskIdentity

import fedplug

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fedplug_flower import Compressed
from local_flower import RUN, Model, Nodes, client_app, record

LAYERS, RANK, HIDDEN, KEYS, WIDE = 16, 32, 2048, 512, 8192
"""Llama 3.2 1B: layers, hidden size, size of all keys, size of the feed-forward layer, and LoRA's r."""

LINEAR = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (HIDDEN, KEYS),
    "self_attn.v_proj": (HIDDEN, KEYS),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (HIDDEN, WIDE),
    "mlp.up_proj": (HIDDEN, WIDE),
    "mlp.down_proj": (WIDE, HIDDEN),
}
"""Inputs and outputs of the linear layers."""

CLIENTS, ROUNDS = 2, 3
ENCODERS = {
    "`qsgd(8)` up, `auto` down": ("qsgd(8)", "auto"),
    "`auto` both ways": ("auto", "auto"),
    "`topk(0.01, scope='model') \\| qsgd(8)` up, `bfp(4) \\| rans` down": (
        "topk(0.01, scope='model') | qsgd(8)",
        "bfp(4) | rans",
    ),
    "rules for A and B up, `auto` down": (
        {"*.lora_A.*": "topk(0.01) | qsgd(4)", "*.lora_B.*": "topk(0.05) | qsgd(8)"},
        "auto",
    ),
}
"""The encoders of updates and of the model."""

RESULTS = Path(__file__).parent / "results" / "lora.md"


def shapes() -> dict[str, tuple[int, int]]:
    """Returns the shapes of the adapters by PEFT's names."""
    found = {}
    for layer in range(LAYERS):
        for name, (inputs, outputs) in LINEAR.items():
            path = f"base_model.model.model.layers.{layer}.{name}"
            found[f"{path}.lora_A.weight"] = (RANK, inputs)
            found[f"{path}.lora_B.weight"] = (outputs, RANK)
    return found


def first_adapters() -> Model:
    """Returns adapters as PEFT makes them: A is random, and B is zero."""
    rng = np.random.default_rng(0)
    return {
        name: rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(shape[1] ** 0.5)
        if ".lora_A." in name
        else np.zeros(shape, np.float32)
        for name, shape in shapes().items()
    }


@functools.cache
def update_of(client: int, round_num: int) -> Model:
    """Returns a change with the heavy tails of real updates (Student's t with four degrees of freedom)."""
    rng = np.random.default_rng([client, round_num])
    return {name: (1e-3 * rng.standard_t(4, shape)).astype(np.float32) for name, shape in shapes().items()}


class Traffic:
    """The bytes of one message each way, of a client in the last round."""

    def __init__(self, name: str, strategy: Strategy, folder: Path, *, compressed: bool) -> None:
        """Runs all rounds."""
        self.name = name
        nodes = Nodes(folder)
        for node in range(1, CLIENTS + 1):
            nodes.add(node, client_app(update_of, None if compressed else []))
        model = record(first_adapters())
        for number in range(1, ROUNDS + 1):
            messages = list(strategy.configure_train(number, model, ConfigRecord(), nodes))
            replies = nodes.send_and_receive(messages)
            for reply in replies:
                if reply.has_error():
                    raise RuntimeError(reply.error.reason)
            self.down, self.up = _size(nodes.sent[1]), _size(nodes.replies[1])
            arrays, _ = strategy.aggregate_train(number, replies)
            assert arrays is not None
            model = arrays


def _size(message: Message) -> int:
    """Returns all bytes that Flower sends for a message."""
    return sum(len(found.deflate()) for found in get_all_nested_objects(message).values())


def of_codec(encoder: object) -> int:
    """Returns the bytes of a client's payloads in the last round."""
    codec, state = fedplug.codec(encoder), None
    for number in range(1, ROUNDS + 1):
        payloads, state = codec.encode_model(update_of(1, number), state, number)
    return sum(map(len, payloads.values()))


def main() -> None:
    """Measures and writes the table."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
    entries = sum(rows * columns for rows, columns in shapes().values())
    plain = Traffic("no compression", FedAvg(fraction_evaluate=0.0), Path(), compressed=False)
    rows = [_row(plain, plain, 4 * entries)]
    for name, (up, down) in ENCODERS.items():
        with tempfile.TemporaryDirectory() as folder:
            strategy = Compressed(FedAvg(fraction_evaluate=0.0), up, broadcast_encoder=down)
            rows.append(_row(Traffic(name, strategy, Path(folder), compressed=True), plain, of_codec(up)))
        print(rows[-1], flush=True)
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("flwr", "numpy", "fedplug")
    )
    RESULTS.write_text(
        f"""# LoRA adapters of a Llama of 1 billion parameters

Written by `python benchmarks/lora.py` in `plugins/fedplug-flower`; {versions}.
r = {RANK}, all linear layers of Llama 3.2 1B: {len(shapes())} adapters with {entries:,} entries. Bytes of one
client in round {ROUNDS}; changes are random (Student's t), so this says nothing about accuracy.

| encoders | payloads of the codec, up | Flower's messages, up | down | times fewer up | down |
|{" --- |" * 6}
{chr(10).join(rows)}

**Flower's messages**: all that Flower sends, with names, metrics and its own framing.
""",
        encoding="utf-8",
    )
    print(RESULTS.read_text(encoding="utf-8"))


def _row(each: Traffic, plain: Traffic, payloads: int) -> str:
    cells = (
        each.name,
        f"{payloads:,}",
        f"{each.up:,}",
        f"{each.down:,}",
        f"{plain.up / each.up:.1f}",
        f"{plain.down / each.down:.1f}",
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
