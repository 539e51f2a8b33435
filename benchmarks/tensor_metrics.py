"""Measures the CPU time of encoding with and without per-tensor metrics, in NumPy and in TFF rounds.

``python -m benchmarks.tensor_metrics`` writes benchmarks/results/tensor_metrics.md, on the CPU.
"""

from __future__ import annotations

import datetime
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.diagnostics.environment import processor

RESULTS = Path(__file__).parent / "results" / "tensor_metrics.md"
SIZES = (10**5, 10**7)
EXPRESSIONS = ("topk(0.01)", "topk(0.01) | qsgd(4) | rans", "qsgd(8)", "qsgd(4) | rans")
CLIENTS = 2
ENOUGH_SECONDS, MOST, LEAST = 4.0, 101, 7


def ratio(without: Callable[[], object], with_metrics: Callable[[], object]) -> tuple[float, float]:
    """The medians of the CPU times in ms; the calls take turns after a warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    without(), with_metrics()
    begin = time.perf_counter()
    while len(times[0]) < LEAST or (len(times[0]) < MOST and time.perf_counter() - begin < ENOUGH_SECONDS):
        for function, mine in zip((without, with_metrics), times, strict=True):
            started = time.process_time()
            function()
            mine.append(1e3 * (time.process_time() - started))
    return statistics.median(times[0]), statistics.median(times[1])


def of_codec(expression: str, size: int) -> tuple[float, float]:
    """Measures `Codec.encode_model` for one array."""
    codec = fedplug.codec(expression)
    model = {"x": np.random.default_rng(0).normal(size=size).astype(np.float32)}
    _, state = codec.encode_model(model)
    metrics = fedplug.TensorMetrics()
    return ratio(
        lambda: codec.encode_model(model, state, 1),
        lambda: codec.encode_model(model, state, 1, metrics=metrics),
    )


def of_round(expression: str, size: int) -> tuple[float, float]:
    """Measures a round of federated averaging of a linear model with ``size`` weights."""
    client_data = [
        tf.data.Dataset.from_tensor_slices(
            (
                np.random.default_rng(client).normal(size=(1, size // 10)).astype(np.float32),
                np.zeros(1, np.int32),
            )
        ).batch(1)
        for client in range(CLIENTS)
    ]

    def model_fn() -> tff.learning.models.VariableModel:
        layers = [tf.keras.layers.InputLayer((size // 10,)), tf.keras.layers.Dense(10, use_bias=False)]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=client_data[0].element_spec,
        )

    calls = []
    for tensor_metrics in (False, True):
        process = fedplug.tff.process.build_weighted_fed_avg(
            model_fn,
            tff.learning.optimizers.build_sgdm(0.1),
            encoder=expression,
            tensor_metrics=tensor_metrics,
        )
        state, clients = process.initialize(), [process.initialize_client()] * CLIENTS
        calls.append(lambda p=process, s=state, c=clients: p.next(s, client_data, c))
    return ratio(*calls)


def main() -> None:
    lines = [
        "# Per-tensor metrics: what they cost",
        "",
        f"Written by `python -m benchmarks.tensor_metrics` on {datetime.date.today()}; {processor()}, "
        f"{os.cpu_count()} cores.",
        "CPU time in ms, without and with metrics in turn in one process, medians; their ratio in brackets.",
        f"One tensor of normal float32 numbers. A round has {CLIENTS} clients of one example each, so that",
        "next to nothing is trained: training comes on top of both numbers.",
        "",
        "| encoder | elements | `Codec.encode_model` | a round in process |",
        "| --- | --- | --- | --- |",
    ]
    with fedplug.use_runtime("inprocess"):
        for expression in EXPRESSIONS:
            for size in SIZES:
                cells = [
                    f"{without:.2f}, {with_metrics:.2f} ({with_metrics / without:.2f})"
                    for without, with_metrics in (of_codec(expression, size), of_round(expression, size))
                ]
                name = expression.replace("|", "\\|")
                lines.append(f"| `{name}` | {size:,} | {cells[0]} | {cells[1]} |")
                print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
