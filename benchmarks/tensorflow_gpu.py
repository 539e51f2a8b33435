"""Times fedplug in TensorFlow on a machine with a GPU: the op in a `tf.function`, and a small training.

    python benchmarks/tensorflow_gpu.py

`make gpu-check PARTS=tensorflow` runs it. The first table has medians of calls whose result the host waits
for, beside an identity op that the host waits for too. The second has the seconds per round of
`fedplug run examples/digits.toml` with the GPU visible and hidden, from two processes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from fedplug import ops

ROOT = Path(__file__).resolve().parents[1]
RUNS = 21
ROUNDS = 30
RUN = "top-k 1 %, error feedback"


def median_us(call: Callable[[], Any]) -> float:
    """The median time of a call, without the first ones."""
    times = []
    for _ in range(RUNS + 3):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times[3:])


def time_ops() -> None:
    """Prints a row for each size."""
    print("| n | `topk_residual` 1 %, GPU | identity, GPU | `topk_residual` 1 %, CPU |")
    print("| --- | --- | --- | --- |")
    for n in (1_000_000, 10_000_000, 50_000_000):
        cells = []
        for device in ("/GPU:0", "/CPU:0"):
            with tf.device(device):
                delta, residual = tf.random.normal([n]), tf.zeros([n])

            @tf.function(autograph=False)
            def select(delta: tf.Tensor, residual: tf.Tensor, n: int = n) -> tf.Tensor:
                found = ops.topk_residual(delta, residual, n // 100, lowering="fused")
                return found.indices[:1]

            @tf.function(autograph=False)
            def same(delta: tf.Tensor) -> tf.Tensor:
                return tf.identity(delta)[:1]

            with tf.device(device):
                cells.append(median_us(lambda s=select, d=delta, r=residual: s(d, r).numpy()))
                cells.append(median_us(lambda s=same, d=delta: s(d).numpy()))
        print(f"| {n:.0e} | {cells[0]:.0f} us | {cells[1]:.0f} us | {cells[2]:.0f} us |", flush=True)


def seconds_per_round(hidden: bool) -> float:
    """The median time of a round of `fedplug run`, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedplug", "run", str(ROOT / "examples" / "digits.toml")]
        options = ["--runs-dir", folder, "--set", f"rounds={ROUNDS}", "--only", RUN]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""} if hidden else dict(os.environ)
        subprocess.run([*command, *options], env=environment, check=True, stdout=subprocess.DEVNULL)
        lines = [line for file in Path(folder).rglob("*.jsonl") for line in file.read_text().splitlines()]
    seconds = [row["seconds"] for row in map(json.loads, lines) if row.get("seconds") is not None]
    return statistics.median(seconds[1:])


def main() -> None:
    """Prints both tables."""
    time_ops()
    print("\n| `fedplug run examples/digits.toml` | GPU visible | GPU hidden |")
    print("| --- | --- | --- |")
    visible, hidden = seconds_per_round(hidden=False), seconds_per_round(hidden=True)
    print(f"| seconds per round | {visible:.4f} | {hidden:.4f} |")


if __name__ == "__main__":
    main()
