"""Compares ways to add sparse payloads into one dense sum: the kernel, the op, and others.

``make bench`` times them; ``make test`` only compares each with a plain loop on a small input. A way whose
library is not installed is skipped. The lower bound for all of them is to read the entries, and to read and
write once each cache line of the sum that they touch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from fedplug import kernels

CASES = [  # (n, payloads, k / n)
    (1_000_000, 10, 0.01),
    (1_000_000, 10, 0.1),
    (10_000_000, 10, 0.001),
    (10_000_000, 10, 0.01),
    (10_000_000, 10, 0.1),
    (10_000_000, 100, 0.01),
]


class Payloads(NamedTuple):
    values: np.ndarray
    indices: np.ndarray
    row_splits: np.ndarray

    def rows(self):
        ends = zip(self.row_splits[:-1], self.row_splits[1:], strict=True)
        return [(self.indices[begin:end], self.values[begin:end]) for begin, end in ends]


@functools.lru_cache(maxsize=1)
def payloads(n: int, count: int, share: float) -> Payloads:
    """Payloads of small whole numbers, whose sums are exact in any order."""
    random = np.random.default_rng(0)
    rows = [np.flatnonzero(random.random(n, np.float32) < share).astype(np.int32) for _ in range(count)]
    row_splits = np.cumsum([0, *map(len, rows)])
    values = random.integers(-8, 9, row_splits[-1]).astype(np.float32)
    return Payloads(values, np.concatenate(rows), row_splits)


def bytes_once(sums, data):
    in_line = 64 // sums.itemsize
    lines = np.zeros(len(np.unique(data.indices // in_line)) * in_line, np.float32)

    def call():
        np.add(lines, 1, out=lines)
        return data.values.max(), data.indices.max()

    return call


def kernel(sums, data):
    def call():
        kernels.scatter_decode_add(sums, *data)
        return sums

    return call


def zeros_and_kernel(sums, data):
    """The baseline of the op, which makes a new sum in each call because its accumulator is a constant."""

    def call():
        sums.fill(0)
        kernels.scatter_decode_add(sums, *data)
        return sums

    return call


def fused_op(sums, data):
    tf = pytest.importorskip("tensorflow")
    from fedplug import ops

    tensors = [tf.constant(part) for part in data]

    @tf.function(reduce_retracing=True)
    def call(*tensors):
        return ops.scatter_decode_add(tf.zeros([len(sums)]), *tensors, lowering="fused")

    return lambda: call(*tensors)


def numpy_rows(sums, data):
    rows = data.rows()

    def call():
        for indices, values in rows:
            sums[indices] += values
        return sums

    return call


def numpy_add_at(sums, data):
    def call():
        np.add.at(sums, data.indices, data.values)
        return sums

    return call


def tensorflow_scatter(sums, data):
    tf = pytest.importorskip("tensorflow")
    indices, values = tf.constant(data.indices[:, None]), tf.constant(data.values)

    @tf.function(reduce_retracing=True)
    def call(indices, values):
        return tf.scatter_nd(indices, values, [len(sums)])

    return lambda: call(indices, values)


def tensorflow_segments(sums, data):
    tf = pytest.importorskip("tensorflow")
    indices, values = tf.constant(data.indices), tf.constant(data.values)

    @tf.function(reduce_retracing=True)
    def call(indices, values):
        return tf.math.unsorted_segment_sum(values, indices, len(sums))

    return lambda: call(indices, values)


def torch_index_add(sums, data):
    torch = pytest.importorskip("torch")
    target, indices, values = map(torch.from_numpy, (sums, data.indices, data.values))
    return lambda: target.index_add_(0, indices, values)


WAYS: dict[str, Callable[..., Callable[[], object]]] = {
    "kernel": kernel,
    "zeros and kernel": zeros_and_kernel,
    "zeros and op": fused_op,
    "NumPy, row by row": numpy_rows,
    "NumPy add.at": numpy_add_at,
    "TensorFlow scatter_nd": tensorflow_scatter,
    "TensorFlow unsorted_segment_sum": tensorflow_segments,
    "torch index_add_": torch_index_add,
}


FLOORS = {"bytes once": bytes_once}


def assert_adds_up(result: object, data: Payloads) -> None:
    sums = np.asarray(result)
    expected = np.bincount(data.indices, data.values, len(sums))
    np.testing.assert_array_equal(sums, expected.astype(np.float32))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_adds_up(way):
    data = payloads(5000, 7, 0.1)
    sums = np.zeros(5000, np.float32)
    assert_adds_up(WAYS[way](sums, data)(), data)


@pytest.mark.parametrize("way", [*FLOORS, *WAYS])
@pytest.mark.parametrize(("n", "count", "share"), CASES)
def test_time(benchmark, n, count, share, way):
    data = payloads(n, count, share)
    sums = np.zeros(n, np.float32)
    benchmark.group = f"scatter, n = {n}, {count} payloads, k / n = {share}"
    benchmark.extra_info.update(
        topic="scatter", n=n, count=count, share=share, entries=len(data.values), way=way
    )
    result = benchmark.pedantic(
        (FLOORS | WAYS)[way](sums, data),
        setup=lambda: sums.fill(0),
        rounds=15 if way in (*FLOORS, "kernel", "zeros and kernel", "zeros and op") else 4,
        warmup_rounds=1,
    )
    if way not in FLOORS:
        assert_adds_up(result, data)
