"""Compares ways to compute top-k with a residual in one process: the kernel, the op, and others.

``make bench`` times them; ``make test`` only compares each with a stable sort on a small input. A way whose
library is not installed is skipped. The floor is the least work of an in-place update,
``residual += delta``.

Each round has another update than the one before. Otherwise, up to about a million elements, a processor
learns the branches of the update and would be faster than in training.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedplug import kernels

SIZES = [100_000, 1_000_000, 10_000_000]
SHARES = [0.001, 0.01, 0.1, 0.4]


class Result(NamedTuple):
    values: np.ndarray
    indices: np.ndarray
    residual: np.ndarray


class Way(NamedTuple):
    """``prepare(k)`` returns the timed function; the other functions make its inputs, untimed."""

    prepare: Callable[[int], Callable[[Any, Any], Result | None]]
    delta: Callable[[np.ndarray], Any] = np.asarray
    residual: Callable[[np.ndarray], Any] = np.asarray

    def inputs(self, delta: np.ndarray, residual: np.ndarray) -> tuple[Any, Any]:
        return self.delta(delta), self.residual(residual)


def kernel(k):
    """Reuses the output arrays of the previous round, as a training loop does."""
    out = np.ones(k, np.float32), np.ones(k, np.int32)
    return lambda delta, residual: Result(*kernels.topk_residual(delta, residual, k, out=out), residual)


def tensor(array):
    return pytest.importorskip("tensorflow").constant(array)


def fused_op(k):
    tf = pytest.importorskip("tensorflow")
    from fedplug import ops

    @tf.function(reduce_retracing=True)
    def call(delta, residual):
        return ops.topk_residual(delta, residual, k, lowering="fused")

    return lambda delta, residual: Result(*call(delta, residual)[:3])


def tensorflow_composite(k):
    tf = pytest.importorskip("tensorflow")

    @tf.function(reduce_retracing=True)
    def call(delta, residual):
        a = delta + residual
        _, indices = tf.math.top_k(tf.abs(a), k, sorted=False)
        values = tf.gather(a, indices)
        return values, indices, a - tf.scatter_nd(indices[:, None], values, tf.shape(a))

    return lambda delta, residual: Result(*call(delta, residual))


def numpy_argpartition(k):
    def call(delta, residual):
        np.add(residual, delta, out=residual)
        indices = np.argpartition(np.abs(residual), -k)[-k:]
        values = residual[indices]
        residual[indices] = 0
        return Result(values, indices, residual)

    return call


def torch_tensor(array):
    return pytest.importorskip("torch").from_numpy(array)


def torch_topk(k):
    torch = pytest.importorskip("torch")

    def call(delta, residual):
        residual.add_(delta)
        indices = torch.topk(residual.abs(), k, sorted=False).indices
        values = residual[indices]
        residual[indices] = 0
        return Result(values, indices, residual)

    return call


WAYS = {
    "kernel": Way(kernel),
    "op": Way(fused_op, tensor, tensor),
    "TensorFlow composite": Way(tensorflow_composite, tensor, tensor),
    "NumPy argpartition": Way(numpy_argpartition),
    "torch.topk": Way(torch_topk, torch_tensor, torch_tensor),
}


def add_only(k):
    def call(delta, residual):
        np.add(residual, delta, out=residual)

    return call


def copy_only(k):
    return lambda delta, residual: np.copyto(residual, delta)


FLOORS = {
    "floor": Way(add_only),
    "memcpy": Way(copy_only),
}
SLOW = ("TensorFlow composite", "NumPy argpartition", "torch.topk")


class Update(NamedTuple):
    delta: np.ndarray
    residual: np.ndarray


@functools.lru_cache(maxsize=1)
def updates(n: int) -> list[Update]:
    random = np.random.default_rng(n)
    return [Update(*random.standard_normal((2, n), np.float32)) for _ in range(3)]


def assert_selects(result: Result, update: Update, k: int) -> None:
    """Checks that the k largest entries were removed, and nothing else; ties may be resolved in any way."""
    result = Result(*map(np.asarray, result))
    a = update.delta + update.residual
    largest = a[np.argpartition(-np.abs(a), k)[:k]]
    np.testing.assert_array_equal(np.sort(np.abs(result.values)), np.sort(np.abs(largest)))
    np.testing.assert_array_equal(result.values, a[result.indices])
    assert len(np.unique(result.indices)) == k
    a[result.indices] = 0
    np.testing.assert_array_equal(result.residual, a)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_selects_the_largest_entries(way):
    n, k = 20_000, 300
    update = updates(n)[0]
    call = WAYS[way].prepare(k)
    assert_selects(call(*WAYS[way].inputs(update.delta, update.residual.copy())), update, k)


@pytest.mark.parametrize("way", [*FLOORS, *WAYS])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("n", SIZES)
def test_time(benchmark, n, share, way):
    k = int(n * share)
    benchmark.group = f"top-k, n = {n}, k / n = {share}"
    benchmark.extra_info.update(topic="topk", n=n, share=share, way=way)
    timed = (FLOORS | WAYS)[way]
    delta, residual = np.empty(n, np.float32), np.empty(n, np.float32)
    turns = itertools.cycle(updates(n))
    last: list[Update] = []

    def next_update():
        last[:] = [next(turns)]
        np.copyto(delta, last[0].delta)
        np.copyto(residual, last[0].residual)
        inputs = timed.inputs(delta, residual)
        _ = [np.asarray(array).max() for array in inputs]  # warms the cache, if they fit
        return inputs, {}

    rounds = 3 if way in SLOW else min(101, 300_000_000 // n)
    call = timed.prepare(k)
    result = benchmark.pedantic(call, setup=next_update, rounds=rounds, warmup_rounds=1)
    if way not in FLOORS:
        assert_selects(result, last[0], k)


def zeros(random, n):
    return np.where(random.random(n) < 0.005, random.standard_normal(n), 0)


# Data that is hard for a selection, in addition to normal numbers.
FILLS = {
    "normal": lambda random, n: random.standard_normal(n),
    "99.5 % zeros": zeros,
    "all zero": lambda random, n: np.zeros(n),
    "constant": lambda random, n: np.ones(n),
    "255 levels": lambda random, n: np.round(random.standard_normal(n) * 60),
    "sorted": lambda random, n: np.arange(n),
    "heavy tails": lambda random, n: random.standard_cauchy(n),
    "denormals": lambda random, n: random.integers(0, 1 << 20, n).astype(np.uint32).view(np.float32),
}


@functools.lru_cache(maxsize=1)
def filled(fill: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    delta = FILLS[fill](np.random.default_rng(1), n).astype(np.float32)
    return delta, np.argsort(-np.abs(delta), kind="stable")


@pytest.mark.parametrize("way", ["floor", "kernel"])
@pytest.mark.parametrize("share", [0.01, 0.1])
@pytest.mark.parametrize("fill", FILLS)
def test_time_of_awkward_data(benchmark, fill, share, way):
    n = 10_000_000
    k = int(n * share)
    delta, order = filled(fill, n)
    residual = np.zeros_like(delta)
    benchmark.group = f"awkward data, {fill}, k / n = {share}"
    benchmark.extra_info.update(topic="data", fill=fill, share=share, way=way)
    call = (FLOORS | WAYS)[way].prepare(k)

    def restored():
        residual.fill(0)
        return (delta, residual), {}

    result = benchmark.pedantic(call, setup=restored, rounds=15, warmup_rounds=1)
    if way not in FLOORS:
        np.testing.assert_array_equal(result.indices, np.sort(order[:k]))
        np.testing.assert_array_equal(result.values, delta[result.indices])


def resnet50() -> list[int]:
    """Parameters per tensor (He et al., CVPR 2016), with 1000 classes."""
    sizes = [7 * 7 * 3 * 64, 64, 64]
    width_in = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            out = 4 * width
            convolutions = [(1, width_in, width), (3, width, width), (1, width, out)]
            if block == 0:
                convolutions.append((1, width_in, out))
            for kernel_size, channels, filters in convolutions:
                sizes += [kernel_size * kernel_size * channels * filters, filters, filters]
            width_in = out
    return [*sizes, 2048 * 1000, 1000]


def bert_base() -> list[int]:
    """Parameters per tensor (Devlin et al., NAACL 2019), uncased."""
    d, ff = 768, 3072
    layer = [d * d, d] * 4 + [d, d] + [d * ff, ff, ff * d, d] + [d, d]
    return [30522 * d, 512 * d, 2 * d, d, d, *layer * 12, d * d, d]


def char_rnn() -> list[int]:
    """Parameters per tensor: 90 embedded characters, two LSTMs of 256 units, a dense layer (LEAF, TFF)."""
    units, vocabulary, embedding = 256, 90, 8
    sizes = [vocabulary * embedding]
    for width in (embedding, units):
        sizes += [width * 4 * units, units * 4 * units, 4 * units]
    return [*sizes, units * vocabulary, vocabulary]


MODELS = {"ResNet-50": resnet50, "BERT-base": bert_base, "char-RNN": char_rnn}


class Model(NamedTuple):
    """A model's update as one array, as views per tensor, and as a separate array per tensor."""

    delta: np.ndarray
    original: np.ndarray
    residual: np.ndarray
    starts: np.ndarray
    cut: tuple[list[np.ndarray], list[np.ndarray]]
    apart: tuple[list[np.ndarray], list[np.ndarray]]


@functools.lru_cache(maxsize=1)
def model_update(name: str) -> Model:
    sizes = MODELS[name]()
    random = np.random.default_rng(0)
    delta, original = (random.standard_normal(sum(sizes), np.float32) for _ in range(2))
    residual = original.copy()
    starts = np.cumsum([0, *sizes])
    deltas, residuals = np.split(delta, starts[1:-1]), np.split(residual, starts[1:-1])
    apart = [part.copy() for part in deltas], [part.copy() for part in residuals]
    return Model(delta, original, residual, starts, (deltas, residuals), apart)


LISTS = ("list, one k", "list, a k each", "tensors apart, one k", "tensors apart, a k each")


@pytest.mark.parametrize("way", ["flat", *LISTS])
@pytest.mark.parametrize("model", MODELS)
def test_time_of_a_model(benchmark, model, way):
    """All ways have the same inputs and reuse the output arrays."""
    update = model_update(model)
    n, tensors = update.delta.size, len(update.starts) - 1
    ks = [max(1, int(size) // 100) for size in np.diff(update.starts)]
    k = sum(ks)
    out = np.ones(k, np.float32), np.ones(k, np.int32)
    deltas, residuals = update.apart if way.startswith("tensors apart") else update.cut

    def restored():
        for residual, start in zip(residuals, update.starts, strict=False):
            np.copyto(residual, update.original[start : start + residual.size])
        return (), {}

    def call():
        if way == "flat":
            return kernels.topk_residual(update.delta, update.residual, k, out=out)
        share = ks if way.endswith("each") else k
        return kernels.grouped_topk_residual(deltas, residuals, share, out=out)

    benchmark.group = f"model, {model}, {n} parameters in {tensors} tensors, k / n = 0.01"
    benchmark.extra_info.update(topic="model", model=model, n=n, tensors=tensors, way=way)
    result = benchmark.pedantic(
        call, setup=restored, rounds=max(15, min(101, 3 * 10**8 // n)), warmup_rounds=3
    )
    starts = np.repeat(update.starts[:-1], np.diff(result[2])) if way != "flat" else 0
    left = np.concatenate(residuals)
    left[result[1] + starts] = result[0]
    np.testing.assert_array_equal(left, update.delta + update.original)
