"""Bytes for a changed weight, and seconds, of an update between two versions of a model in bfloat16.

Usage: python benchmarks/updates.py [LAYERS WIDTH [SHARE]...]

Replaces the rows of these measurements in results/updates.md, and keeps the others. Each row changes a share
of the weights at random by one to three units in the last place, as small steps of a trainer do.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import zstandard
from fedplug_vllm.publisher import Publisher
from fedplug_vllm.staging import Staging
from safetensors.torch import save

from fedplug.diagnostics.environment import environment

SHARES = (0.0002, 0.01, 0.1)
VOCABULARY = 50_257
LOAD = os.getloadavg()[0]
ROUNDS = 3

EXPLANATION = """The weights are a Llama's in bfloat16, of which a share changes at random.

- *fedplug*: the file that a server of the last version fetches. *sparse*: vLLM's `sparse_nccl`, calculated,
  as it needs CUDA: its source sends an int32 for an index, and the value. *XOR, zstd*: of the two versions,
  level 1. *whole*: safetensors.
- *publish*: the trainer copies, compares, encodes and writes. *stage*: the server fetches, checks and
  decodes. *prepare*: it finds the elements to write. The server answers meanwhile: the pause is in
  [another table](pause.md). *XOR* and *whole*: the time to make those bytes.

| weights | changed | fedplug | sparse | XOR, zstd | whole | publish | stage | prepare | XOR | whole |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |""".splitlines()


def shapes(layers: int, width: int) -> dict[str, tuple[int, ...]]:
    """The weights of a Llama with tied embeddings. 12 layers of 768 have 124 million, 18 of 2048 1,009."""
    inner = 8 * width // 3
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, width)}
    for layer in range(layers):
        name = f"model.layers.{layer}."
        found |= {f"{name}self_attn.{part}_proj.weight": (width, width) for part in "qkvo"}
        found |= {f"{name}mlp.{part}_proj.weight": (inner, width) for part in ("gate", "up")}
        found[f"{name}mlp.down_proj.weight"] = (width, inner)
    return found


def changed(model: dict[str, torch.Tensor], share: float, seed: int) -> tuple[dict[str, torch.Tensor], int]:
    """Returns the next version, and the number of its changed weights."""
    rng = np.random.default_rng(seed)
    after, count = {}, 0
    for name, tensor in model.items():
        bits = tensor.view(torch.int16).numpy().copy().reshape(-1)
        places = np.unique(rng.integers(0, bits.size, int(bits.size * share)))
        bits[places] ^= rng.integers(1, 4, places.size, dtype=np.int16)
        after[name] = torch.from_numpy(bits).view(torch.bfloat16).reshape(tensor.shape)
        count += places.size
    return after, count


def xor_zstd(old: dict[str, torch.Tensor], new: dict[str, torch.Tensor]) -> int:
    """Returns the bytes of the XOR of two versions after zstd."""
    coder = zstandard.ZstdCompressor(level=1)
    return sum(
        len(coder.compress((old[name].view(torch.int16) ^ new[name].view(torch.int16)).numpy().tobytes()))
        for name in new
    )


def seconds(work: Callable[[], int]) -> tuple[float, int]:
    """Returns the time that a function takes, and its result."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def measured(layers: int, width: int, share: float) -> str:
    """Returns a row of the table."""
    rng = np.random.default_rng(0)
    model = {
        name: torch.from_numpy(rng.standard_normal(shape, np.float32)).to(torch.bfloat16) * 0.02
        for name, shape in shapes(layers, width).items()
    }
    elements = sum(tensor.numel() for tensor in model.values())
    times: dict[str, list[float]] = {key: [] for key in ("publish", "stage", "prepare", "copy", "xor")}
    with tempfile.TemporaryDirectory() as folder:
        publisher = Publisher(folder, snapshot_every=1000)
        staging = Staging(folder, poll_seconds=3600, patches=True)
        publisher.publish(model.items())
        staging.applied(staging.take(1))
        for step in range(2, ROUNDS + 2):
            after, count = changed(model, share, step)
            sent = publisher.publish(after.items())
            times["publish"].append(sent.seconds)
            update = staging.take(step)
            staging.applied(update)
            times["stage"].append(update.seconds["fetch"] + update.seconds["decode"])
            times["prepare"].append(update.seconds["prepare"])
            assert update.changes is not None
            assert sum(len(change.values) for change in update.changes) == count
            assert sent.change_bytes is not None
            took, xored = seconds(lambda old=model, new=after: xor_zstd(old, new))
            times["xor"].append(took)
            took, whole = seconds(lambda new=after: len(save(new)))
            times["copy"].append(took)
            model = after
        staging.close()
    each = {key: statistics.median(found) for key, found in times.items()}
    cells = [
        f"{elements / 1e6:,.0f} million",
        f"{share:.2%}",
        f"{8 * sent.change_bytes / count:.1f}",
        f"{8 * (4 + 2):.1f}",
        f"{8 * xored / count:.1f}",
        f"{8 * whole / count:,.0f}",
        *(f"{each[key]:.2f}" for key in ("publish", "stage", "prepare", "xor", "copy")),
    ]
    return f"| {' | '.join(cells)} |"


def rows_of(table: str) -> dict[tuple[float, float], str]:
    """Returns the rows of a table by the number of weights and the share."""
    rows = {}
    for line in table.splitlines():
        if " million | " in line:
            _, weights, share, *_ = line.split("|")
            rows[float(weights.split()[0].replace(",", "")), float(share.strip(" %"))] = line
    return rows


def main() -> None:
    """Writes the table."""
    layers, width, *shares = sys.argv[1:] or ("12", "768")
    path = Path(__file__).parent / "results" / "updates.md"
    for share in map(float, shares or SHARES):
        row = measured(int(layers), int(width), share)
        rows = rows_of(path.read_text(encoding="utf-8")) | rows_of(row)
        facts = environment()
        lines = [
            "# Updates of running servers",
            "",
            f"Bits for each changed weight, and seconds (medians of {ROUNDS} versions). Made by",
            "`python benchmarks/updates.py 12 768` and `python benchmarks/updates.py 18 2048`",
            f"on {facts['cores']} cores, {facts['processor']}, load average {LOAD:.1f} before the last "
            "command.",
            *EXPLANATION,
            *(rows[key] for key in sorted(rows)),
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(row, flush=True)


if __name__ == "__main__":
    main()
