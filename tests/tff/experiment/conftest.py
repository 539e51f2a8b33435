"""Folders of experiments as `fedplug run` writes them, without the training: realistic, deterministic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SHAPES = {
    "conv2d/kernel": [3, 3, 1, 32],
    "conv2d/bias": [32],
    "dense/kernel": [1568, 128],
    "dense/bias": [128],
    "logits/kernel": [128, 10],
    "logits/bias": [10],
}
RUNS = {
    "no compression": {"encoder": "identity"},
    "top-k 1 %": {"encoder": "topk(0.01)"},
    "top-k 1 %, 8 bits": {"encoder": "topk(0.01) | qsgd(8)"},
}
ENVIRONMENT = {"since": "2026-01-01T00:00:00+00:00", "fedplug": "0.1.0", "python": "3.11.9", "simd": "avx512"}


def write_folder(
    folder: Path,
    *,
    runs: dict[str, dict[str, Any]] = RUNS,
    shapes: dict[str, list[int]] = SHAPES,
    rounds: int = 40,
    clients: int = 20,
    repeats: int = 1,
    target: float = 0.8,
    tensor_metrics: bool = True,
    last: dict[str, int] | None = None,
) -> Path:
    """Writes what an experiment leaves; ``last`` are the rounds of runs that have not ended yet."""
    folder.mkdir(parents=True)
    dense_bytes = 4 * sum(int(np.prod(shape)) for shape in shapes.values())
    config = {
        "name": folder.name,
        "rounds": rounds,
        "clients_per_round": 5,
        "seed": 0,
        "repeats": repeats,
        "target_accuracy": target,
        "tensor_metrics": tensor_metrics,
        "data": {"source": "digits", "clients": clients},
        "runs": [{"name": name, "broadcast_encoder": "", **settings} for name, settings in runs.items()],
    }
    tensors = [{"name": name, "shape": shape, "dtype": "float32"} for name, shape in shapes.items()]
    part = {"kind": "encoder", "name": "topk", "distribution": "fedplug", "version": "0.1.0"}
    lines = [
        row(name, seed, i, settings["encoder"], shapes, clients, tensor_metrics)
        for name, settings in runs.items()
        for seed in range(repeats)
        for i in range(1, (last or {}).get(name, rounds) + 1)
    ]
    texts = {
        "config.json": config,
        "model.json": {"dense_bytes": dense_bytes, "tensors": tensors},
        "provenance.json": {name: [part] for name in runs},
        "environment.json": [ENVIRONMENT],
    }
    for name, value in texts.items():
        (folder / name).write_text(json.dumps(value, indent=2), encoding="utf-8")
    log = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(log, encoding="utf-8")
    return folder


def row(
    run: str,
    seed: int,
    round_num: int,
    encoder: str,
    shapes: dict[str, list[int]],
    clients: int,
    tensor_metrics: bool,
) -> dict[str, Any]:
    """Makes the log row of a round: sparse runs learn slower, send less, and compute longer."""
    rng = np.random.default_rng([seed, round_num, len(run)])
    sampled = np.random.default_rng([seed, round_num]).choice(clients, 5, replace=False)
    tensors = {name: tensor(encoder, shape, round_num, rng) for name, shape in shapes.items()}
    dense = 4 * sum(int(np.prod(shape)) for shape in shapes.values())
    slowness = 8 if encoder == "identity" else 12
    accuracy = 0.1 + 0.85 * (1 - np.exp(-round_num / slowness)) + rng.normal(0, 0.01)
    return {
        "run": run,
        "seed": seed,
        "round": round_num,
        "test_accuracy": float(np.clip(accuracy, 0, 1)),
        "train_loss": float(2.3 * np.exp(-round_num / slowness)),
        "uplink_bytes": sum(each["uplink_bytes"] for each in tensors.values()),
        "downlink_bytes": 5 * dense,
        "clients": 5,
        "payloads": 5,
        "nonfinite_updates": 0,
        "seconds": float(0.2 + 0.02 * (encoder != "identity") + rng.uniform(0, 0.01)),
        "client_ids": [f"client {i:03}" for i in sampled],
        **({"tensors": tensors} if tensor_metrics else {}),
    }


def tensor(encoder: str, shape: list[int], round_num: int, rng: np.random.Generator) -> dict[str, Any]:
    """The metrics of a tensor in a round, of five clients."""
    size = int(np.prod(shape))
    if encoder == "identity" or size < 64:
        values, index, bound, nmse, ratio = 4 * size, 0, 4.0 * size, 0.0, None
    else:
        kept = max(1, size // 100)
        values, index = (1 if "qsgd" in encoder else 4) * kept, kept
        bound = 0.97 * values + 0.9 * index
        nmse = float(0.5 + 0.4 * (1 - np.exp(-round_num / 10)) + rng.uniform(-0.02, 0.02))
        ratio = float(9 * (1 - np.exp(-round_num / 15)) + rng.uniform(0.5, 1))
    return {
        "uplink_bytes": 5 * (values + index + 48),
        "header_bytes": 5 * 48,
        "index_bytes": 5 * index,
        "value_bytes": 5 * values,
        "entropy_bytes": 5 * bound,
        "nmse": nmse,
        "residual_ratio": ratio,
    }


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a folder ``runs/NAME`` of its own for every call, as `write_folder`."""

    def make(name: str = "digits", **settings: Any) -> Path:
        return write_folder(tmp_path_factory.mktemp("runs") / name, **settings)

    return make
