"""Compares ops that could be composed of others with those compositions, to justify keeping them.

``python benchmarks/composed.py`` writes benchmarks/results/composed.md. The inputs are float32, in a
``tf.function``; both ways take turns in one process; figures are medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fedplug import ops
from fedplug.diagnostics.environment import environment

SIZES = (100_000, 1_000_000, 10_000_000)
ROUNDS = {100_000: 60, 1_000_000: 40, 10_000_000: 12}
MOMENTUM, FRACTION = 0.9, 0.01
RESULT = Path(__file__).with_name("results") / "composed.md"

Call = Callable[..., tuple[tf.Tensor, ...]]


def momentum_in_one_op(delta: Any, residual: Any, velocity: Any) -> tuple[tf.Tensor, ...]:
    k = int(FRACTION * delta.shape[0])
    return tuple(ops.topk_momentum(delta, velocity, residual, k, momentum=MOMENTUM))[:4]


def momentum_in_steps(delta: Any, residual: Any, velocity: Any) -> tuple[tf.Tensor, ...]:
    moved = MOMENTUM * velocity + delta
    taken = ops.topk_residual(moved, residual, int(FRACTION * delta.shape[0]))
    zeros = tf.zeros_like(taken.values)
    moved = tf.tensor_scatter_nd_update(moved, taken.indices[:, tf.newaxis], zeros)
    return taken.values, taken.indices, moved, taken.residual


ROWS: tuple[tuple[str, Call, str, Call], ...] = (
    (
        "`topk_momentum`, 1 %",
        momentum_in_one_op,
        "momentum, `topk_residual`, scatter",
        momentum_in_steps,
    ),
)


def medians(size: int, calls: tuple[Call, Call]) -> list[float]:
    """The median seconds of a call of each; first checks that their results are equal."""
    numbers = np.random.default_rng(0).standard_normal((3, size)).astype(np.float32)
    arguments = [tf.constant(row) for row in numbers]
    graphs = [tf.function(call, autograph=False) for call in calls]
    results = [graph(*arguments) for graph in graphs]
    for left, right in zip(*results, strict=True):
        np.testing.assert_array_equal(left, right)
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS[size]):
        for graph, mine in zip(graphs, times, strict=True):
            begin = time.perf_counter()
            graph(*arguments)
            mine.append(time.perf_counter() - begin)
    return [statistics.median(mine) for mine in times]


def main() -> None:
    facts = environment()
    lines = [
        "# Kept because it is faster than what it could be composed of",
        "",
        f"Made by `python benchmarks/composed.py`: {facts['processor']}, {facts['cores']} cores, SIMD level "
        f"{facts['simd']}, TensorFlow {facts['tensorflow']}. Float32, in a `tf.function`, in turn, "
        "in one process, medians.",
        "",
        "| what | instead | n | ms | instead, ms | gain |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, kept, instead, steps in ROWS:
        for size in SIZES:
            mine, theirs = medians(size, (kept, steps))
            lines.append(
                f"| {name} | {instead} | {size:.0e} | {1e3 * mine:.3g} | {1e3 * theirs:.3g} "
                f"| {theirs / mine:.2f}x |"
            )
            print(lines[-1], flush=True)
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
