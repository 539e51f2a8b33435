"""Measures the overhead of TensorFlow over the kernel: the same residual updates with and without the op.

A call of a ``tf.function`` costs hundreds of microseconds for any content, and more after an update has
evicted Python and TensorFlow from the caches. Each way is therefore timed with one update and with nine: the
difference is the time of eight updates, and the rest of the first is the call. A machine's speed varies by
the second, so every round contains all ways, and differences are taken within a round.

``make bench`` times it; ``make test`` only compares the op with the kernel on a small input.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedplug import kernels

MORE = 8
WAYS = ["kernel", "op in a tf.function", "op, eagerly"]


class Training:
    """One residual, in NumPy or in a variable, and its updates in turn."""

    def __init__(self, way: str, n: int, k: int, policy: str) -> None:
        random = np.random.default_rng(n)
        self.way = way
        self.residual: Any = random.standard_normal(n, np.float32)
        self.deltas: list[Any] = [random.standard_normal(n, np.float32) for _ in range(3)]
        self.update: Callable[[Any], Any]
        if way == "kernel":
            out = np.ones(k, np.float32), np.ones(k, np.int32)
            self.update = lambda delta: kernels.topk_residual(
                delta, self.residual, k, on_nonfinite=policy, out=out
            )
            return
        tf = pytest.importorskip("tensorflow")
        from fedplug import ops

        self.residual = tf.Variable(self.residual)
        self.deltas = [tf.constant(delta) for delta in self.deltas]
        self.update = lambda delta: ops.topk_residual_update(
            self.residual, delta, k, on_nonfinite=policy, lowering="fused"
        )

    def call(self, updates: int) -> Callable[[], Any]:
        def train():
            for i in range(updates):
                taken = self.update(self.deltas[i % len(self.deltas)])
            return taken

        if self.way != "op in a tf.function":
            return train
        return pytest.importorskip("tensorflow").function(train)


def assert_updates_like_the_kernel(training: Training, call: Callable[[], Any], updates: int, k: int) -> None:
    residual = np.array(training.residual)
    values, indices = (np.array(part) for part in call()[:2])
    for i in range(updates):
        delta = np.asarray(training.deltas[i % len(training.deltas)])
        expected = kernels.topk_residual(delta, residual, k)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_array_equal(np.asarray(training.residual), residual)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_the_same_training(way):
    training = Training(way, n=20_000, k=300, policy="error")
    assert_updates_like_the_kernel(training, training.call(4), updates=4, k=300)


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.parametrize("policy", ["drop", "error"])
@pytest.mark.parametrize("share", [0.01, 0.1])
@pytest.mark.parametrize("n", [100_000, 1_000_000, 10_000_000])
def test_time(benchmark, n, share, policy):
    k = int(n * share)
    trainings = {way: Training(way, n, k, policy) for way in WAYS}
    calls = {(way, updates): trainings[way].call(updates) for way in WAYS for updates in (1, 1 + MORE)}
    rounds: list[dict[tuple[str, int], float]] = []

    def one_round():
        rounds.append({})
        for case, call in calls.items():
            call()  # warms the caches
            rounds[-1][case] = seconds(call)

    benchmark.group = f"through TensorFlow, all ways, n = {n}, k / n = {share}, {policy}"
    benchmark.pedantic(one_round, rounds=max(21, min(101, 100_000_000 // n)), warmup_rounds=1)
    for way, training in trainings.items():
        assert_updates_like_the_kernel(training, calls[way, 1 + MORE], 1 + MORE, k)
    one = [{way: (each[way, 1 + MORE] - each[way, 1]) / MORE for way in WAYS} for each in rounds[1:]]
    benchmark.extra_info.update(topic="op", n=n, share=share, policy=policy)
    benchmark.extra_info["update"] = {way: float(np.median([each[way] for each in one])) for way in WAYS}
    benchmark.extra_info["beyond"] = {
        way: float(np.median([each[way] - each["kernel"] for each in one])) for way in WAYS[1:]
    }
    benchmark.extra_info["call"] = float(
        np.median([each[WAYS[1], 1] - update[WAYS[1]] for each, update in zip(rounds[1:], one, strict=True)])
    )
