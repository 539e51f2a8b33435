"""Counts the bytes of the adapters of a fine-tuned Llama, their changes up and the new versions down.

Usage: lora.py. It writes results/lora.md. The shapes are those that PEFT makes for Llama 3.2 1B with r = 32
and all linear layers. The changes are random, because the model itself cannot be trained here: only sizes
are measured, no accuracy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fedplug

LAYERS, RANK, HIDDEN, KEYS, WIDE = 16, 32, 2048, 512, 8192
"""Llama 3.2 1B: layers, LoRA's r, hidden size, size of all keys, and size of the feed-forward layer."""

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
RULES = {"*.lora_A.*": "topk(0.01) | qsgd(4)", "*.lora_B.*": "topk(0.05) | qsgd(8)"}
ENCODERS = {
    "`qsgd(8)` up, `auto` down": ("qsgd(8)", "auto"),
    "`auto` both ways": ("auto", "auto"),
    "`topk(0.01, scope='model') \\| qsgd(8)` up, `bfp(4) \\| rans` down": (
        "topk(0.01, scope='model') | qsgd(8)",
        "bfp(4) | rans",
    ),
    "rules for A and B up, `auto` down": (RULES, "auto"),
}
"""The encoders of updates and of the model."""

Model = dict[str, NDArray[np.float32]]


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


def update_of(client: int, round_num: int) -> Model:
    """Returns a change with the heavy tails of real updates (Student's t with four degrees of freedom)."""
    rng = np.random.default_rng([client, round_num])
    return {name: (1e-3 * rng.standard_t(4, shape)).astype(np.float32) for name, shape in shapes().items()}


def bytes_of(up: object, down: object) -> tuple[int, int]:
    """Returns the bytes of a client's payloads and of the model's message, both in the last round."""
    codec, server, receiver = fedplug.codec(up), fedplug.Broadcaster(down), fedplug.Receiver()
    model, states = first_adapters(), dict.fromkeys(range(1, CLIENTS + 1))
    for number in range(1, ROUNDS + 1):
        server.publish(model)
        message, total = server.message(receiver.version), fedplug.ModelSum.like(model)
        receiver.apply(message)
        for client, state in states.items():
            payloads, states[client] = codec.encode_model(update_of(client, number), state, number)
            total.add(payloads)
        model = {name: model[name] + mean for name, mean in total.mean().items()}
    return sum(map(len, payloads.values())), len(message)


def main() -> None:
    """Measures and writes the table."""
    entries = sum(rows * columns for rows, columns in shapes().values())
    rows = [f"| none | {4 * entries:,} | {4 * entries:,} | 1.0 | 1.0 |"]
    for name, encoders in ENCODERS.items():
        up, down = bytes_of(*encoders)
        rows.append(f"| {name} | {up:,} | {down:,} | {4 * entries / up:.1f} | {4 * entries / down:.1f} |")
        print(rows[-1], flush=True)
    (Path(__file__).parent / "results" / "lora.md").write_text(
        f"""# LoRA adapters of a Llama of 1 billion parameters

Written by `python benchmarks/lora.py`: r = {RANK}, all linear layers of Llama 3.2 1B, {len(shapes())}
adapters with {entries:,} entries. Bytes of one client in round {ROUNDS}; changes are random (Student's t),
so this says nothing about accuracy.

| encoders | payloads up | message down | times fewer up | down |
| --- | --- | --- | --- | --- |
{chr(10).join(rows)}
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
