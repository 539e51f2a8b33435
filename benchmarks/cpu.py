"""Compares the CPU kernels with other ways to do the same: writes benchmarks/results/cpu.md, with a picture.

    python -m benchmarks.cpu            # a quarter of an hour
    python -m benchmarks.cpu cpu_torch  # writes results/cpu_torch.md, in an environment with PyTorch

A way whose library is not installed is left out. All ways run in this process, one after the other, and each
result is checked. The floor of a selection is the least work of an in-place update, ``residual += delta``.

Each run has another update than the one before. Otherwise, up to about a million elements, a processor
learns the branches of the update and would be faster than in training.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import importlib.util
import itertools
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedplug import kernels, pictures
from fedplug.diagnostics.environment import processor

RESULTS = Path(__file__).parent / "results"
SIZES, SHARES = (100_000, 1_000_000, 10_000_000), (0.001, 0.01, 0.1, 0.4)
LIBRARIES = ("numpy", "tensorflow", "torch")
NOT_RUN = "not run"
SLOW_RUNS = 3
Array = np.ndarray[Any, Any]
Times = dict[str, float]

_MADE = """# CPU kernels

Made by `python -m benchmarks.cpu{arguments}`; float32, medians, ratios within one process.

- {date}, {processor}, {cores} cores
- {system} {release}, Python {python}
- SIMD level {simd}, {threads} threads, {libraries}
- load average {load:.1f} when the run began{busy}

## Top-k with residual

The floor is `residual += delta` in NumPy, on one thread. The kernel updates the residual in place;
the op, as Python holds its arguments, writes a new one. It is all that a `tf.function` does here,
whose call is in the figures.

{topk}
![Speed-up over peers]({stem}_speedup.svg)

## Awkward data, n = 1e7

{data}
## A model at once, k / n = 1 %

{model}
## Adding payloads into a sum

Bytes once: NumPy reads the entries, and reads and writes as many cache lines as they name, on one
thread. Thin payloads are bound by these bytes, not by the number of entries.

{scatter}"""


def timed(
    call: Callable[..., Any], runs: int, prepare: Callable[[], tuple[Any, ...]] = tuple
) -> tuple[float, Any]:
    """Returns the median seconds of some runs after a first one, and the last result.

    ``prepare`` makes the arguments of each run, untimed.
    """
    times, result = [], None
    for _ in range(runs + 1):
        arguments = prepare()
        begin = time.perf_counter()
        result = call(*arguments)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:]), result


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Formats rows in Markdown, without the columns of ways that did not run."""
    columns = [column for column in zip(header, *rows, strict=True) if set(column[1:]) != {NOT_RUN}]
    first, *others = zip(*columns, strict=True)
    return "".join("| " + " | ".join(line) + " |\n" for line in (first, ["---"] * len(first), *others))


def ratio(ways: Times, above: str, below: str) -> str:
    return f"{ways[above] / ways[below]:.3g}" if {above, below} <= ways.keys() else NOT_RUN


def milliseconds(ways: Times, way: str) -> str:
    return f"{ways[way] * 1e3:.3g}"


class Result(NamedTuple):
    values: Array
    indices: Array
    residual: Array


def kernel(k: int) -> Callable[..., Result]:
    """Reuses the output arrays of the previous round, as a training loop does."""
    out = np.ones(k, np.float32), np.ones(k, np.int32)
    return lambda delta, residual: Result(*kernels.topk_residual(delta, residual, k, out=out), residual)


def tensor(array: Array) -> Any:
    return importlib.import_module("tensorflow").constant(array)


def fused_op(k: int) -> Callable[..., Result]:
    tf = importlib.import_module("tensorflow")
    from fedplug import ops

    @tf.function(reduce_retracing=True)
    def call(delta: Any, residual: Any) -> Any:
        return ops.topk_residual(delta, residual, k, lowering="fused")

    return lambda delta, residual: Result(*call(delta, residual)[:3])


def tensorflow_composite(k: int) -> Callable[..., Result]:
    tf = importlib.import_module("tensorflow")

    @tf.function(reduce_retracing=True)
    def call(delta: Any, residual: Any) -> Any:
        a = delta + residual
        _, indices = tf.math.top_k(tf.abs(a), k, sorted=False)
        values = tf.gather(a, indices)
        return values, indices, a - tf.scatter_nd(indices[:, None], values, tf.shape(a))

    return lambda delta, residual: Result(*call(delta, residual))


def numpy_argpartition(k: int) -> Callable[..., Result]:
    def call(delta: Array, residual: Array) -> Result:
        np.add(residual, delta, out=residual)
        indices = np.argpartition(np.abs(residual), -k)[-k:]
        values = residual[indices]
        residual[indices] = 0
        return Result(values, indices, residual)

    return call


def torch_tensor(array: Array) -> Any:
    return importlib.import_module("torch").from_numpy(array)


def torch_topk(k: int) -> Callable[..., Result]:
    torch = importlib.import_module("torch")

    def call(delta: Any, residual: Any) -> Result:
        residual.add_(delta)
        indices = torch.topk(residual.abs(), k, sorted=False).indices
        values = residual[indices]
        residual[indices] = 0
        return Result(values, indices, residual)

    return call


def floor(k: int) -> Callable[..., None]:
    def call(delta: Array, residual: Array) -> None:
        np.add(residual, delta, out=residual)

    return call


FLOOR = {"floor": (floor, np.asarray)}
KERNEL = {"kernel": (kernel, np.asarray)}
OP = {"op": (fused_op, tensor)}
PEERS: dict[str, tuple[Callable[[int], Callable[..., Result]], Callable[[Array], Any]]] = {
    "TensorFlow composite": (tensorflow_composite, tensor),
    "NumPy argpartition": (numpy_argpartition, np.asarray),
    "torch.topk": (torch_topk, torch_tensor),
}


def check_selection(result: Result, a: Array, k: int) -> None:
    """Checks that the k largest entries were removed, and nothing else; ties may be resolved in any way."""
    values, indices, residual = map(np.asarray, result)
    largest = a[np.argpartition(-np.abs(a), k)[:k]]
    np.testing.assert_array_equal(np.sort(np.abs(values)), np.sort(np.abs(largest)))
    np.testing.assert_array_equal(values, a[indices])
    assert len(np.unique(indices)) == k
    left = a.copy()
    left[indices] = 0
    np.testing.assert_array_equal(residual, left)


def topk_times(n: int, share: float) -> Times:
    """Times all ways on normal numbers."""
    random, k, found = np.random.default_rng(n), int(n * share), {}
    updates = [random.standard_normal((2, n), np.float32) for _ in range(3)]
    turns, last = itertools.cycle(updates), updates[:1]
    delta, residual = np.empty(n, np.float32), np.empty(n, np.float32)
    for way, (prepare, convert) in {**FLOOR, **KERNEL, **OP, **PEERS}.items():

        def inputs(convert: Callable[[Array], Any] = convert) -> tuple[Any, ...]:
            last[0] = next(turns)
            np.copyto(delta, last[0][0])
            np.copyto(residual, last[0][1])
            arrays = tuple(map(convert, (delta, residual)))
            _ = [np.asarray(array).max() for array in arrays]  # warms the cache, if they fit
            return arrays

        try:
            runs = SLOW_RUNS if way in PEERS else min(101, 300_000_000 // n)
            found[way], result = timed(prepare(k), runs, inputs)
        except ModuleNotFoundError:
            continue
        if way not in FLOOR:
            check_selection(result, last[0][0] + last[0][1], k)
    return found


def topk_table(cases: dict[tuple[int, float], Times]) -> str:
    header = ["n", "k / n", "floor, ms", *(f"{way}, x floor" for way in (*KERNEL, *OP))]
    rows = [
        [f"{n:.0e}", str(share), milliseconds(ways, "floor")]
        + [ratio(ways, way, "floor") for way in (*KERNEL, *OP)]
        + [ratio(ways, way, "kernel") for way in PEERS]
        for (n, share), ways in cases.items()
    ]
    return table(header + [f"speed-up over {way}" for way in PEERS], rows)


FILLS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda random, n: random.standard_normal(n),
    "99.5 % zeros": lambda random, n: np.where(random.random(n) < 0.005, random.standard_normal(n), 0),
    "all zero": lambda random, n: np.zeros(n),
    "constant": lambda random, n: np.ones(n),
    "255 levels": lambda random, n: np.round(random.standard_normal(n) * 60),
    "sorted": lambda random, n: np.arange(n),
    "heavy tails": lambda random, n: random.standard_cauchy(n),
    "denormals": lambda random, n: random.integers(0, 1 << 20, n).astype(np.uint32).view(np.float32),
}
"""Data that is hard for a selection, beside normal numbers."""


def data_rows(n: int = 10_000_000) -> Iterator[list[str]]:
    for fill, make in FILLS.items():
        delta = make(np.random.default_rng(1), n).astype(np.float32)
        order, residual = np.argsort(-np.abs(delta), kind="stable"), np.zeros_like(delta)

        def restored(delta: Array = delta, residual: Array = residual) -> tuple[Array, Array]:
            residual.fill(0)
            return delta, residual

        for share in (0.01, 0.1):
            k, ways = int(n * share), {}
            for way, (prepare, _) in {**FLOOR, **KERNEL}.items():
                ways[way], result = timed(prepare(k), 15, restored)
                if way not in FLOOR:
                    np.testing.assert_array_equal(result.indices, np.sort(order[:k]))
                    np.testing.assert_array_equal(result.values, delta[result.indices])
            yield [fill, str(share), milliseconds(ways, "floor"), ratio(ways, "kernel", "floor")]


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
            for size, channels, filters in convolutions:
                sizes += [size * size * channels * filters, filters, filters]
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
LISTS = ("list, one k", "list, a k each", "tensors apart, one k", "tensors apart, a k each")


def model_row(name: str, sizes: list[int]) -> list[str]:
    """All ways have the same inputs and reuse the output arrays."""
    random, starts = np.random.default_rng(0), np.cumsum([0, *sizes])
    delta, original = (random.standard_normal(sum(sizes), np.float32) for _ in range(2))
    ks = [max(1, size // 100) for size in sizes]
    out, ways = (np.ones(sum(ks), np.float32), np.ones(sum(ks), np.int32)), {}
    for way in ("flat", *LISTS):
        residual = original.copy()
        deltas, residuals = (np.split(each, starts[1:-1]) for each in (delta, residual))
        if way.startswith("tensors apart"):
            deltas, residuals = ([part.copy() for part in parts] for parts in (deltas, residuals))
        share = ks if way.endswith("each") else sum(ks)

        def restored(residuals: list[Array] = residuals) -> tuple[()]:
            for part, start in zip(residuals, starts, strict=False):
                np.copyto(part, original[start : start + part.size])
            return ()

        if way == "flat":
            call = partial(kernels.topk_residual, delta, residual, sum(ks), out=out)
        else:
            call = partial(kernels.grouped_topk_residual, deltas, residuals, share, out=out)
        ways[way], result = timed(call, max(15, min(101, 3 * 10**8 // delta.size)), restored)
        at = np.repeat(starts[:-1], np.diff(result[2])) if way != "flat" else 0
        left = np.concatenate(residuals)
        left[result[1] + at] = result[0]
        np.testing.assert_array_equal(left, delta + original)
    return [name, str(delta.size), str(len(sizes)), milliseconds(ways, "flat")] + [
        ratio(ways, way, "flat") for way in LISTS
    ]


CASES = (  # n, payloads, k / n
    (1_000_000, 10, 0.01),
    (1_000_000, 10, 0.1),
    (10_000_000, 10, 0.001),
    (10_000_000, 10, 0.01),
    (10_000_000, 10, 0.1),
    (10_000_000, 100, 0.01),
)
Added = Callable[[], object]


class Payloads(NamedTuple):
    """Payloads of small whole numbers, whose sums are exact in any order."""

    values: Array
    indices: Array
    row_splits: Array


def payloads(n: int, count: int, share: float) -> Payloads:
    random = np.random.default_rng(0)
    rows = [np.flatnonzero(random.random(n, np.float32) < share).astype(np.int32) for _ in range(count)]
    row_splits = np.cumsum([0, *map(len, rows)])
    values = random.integers(-8, 9, row_splits[-1]).astype(np.float32)
    return Payloads(values, np.concatenate(rows), row_splits)


def bytes_once(sums: Array, data: Payloads) -> Added:
    in_line = 64 // sums.itemsize
    lines = np.zeros(len(np.unique(data.indices // in_line)) * in_line, np.float32)

    def call() -> object:
        np.add(lines, 1, out=lines)
        return data.values.max(), data.indices.max()

    return call


def adding_kernel(sums: Array, data: Payloads) -> Added:
    return lambda: kernels.scatter_decode_add(sums, *data)


def zeros_and_kernel(sums: Array, data: Payloads) -> Added:
    """The baseline of the op, which makes a new sum in each call because its accumulator is a constant."""

    def call() -> None:
        sums.fill(0)
        kernels.scatter_decode_add(sums, *data)

    return call


def zeros_and_op(sums: Array, data: Payloads) -> Added:
    tf = importlib.import_module("tensorflow")
    from fedplug import ops

    def add(*parts: Any) -> Any:
        return ops.scatter_decode_add(tf.zeros([len(sums)]), *parts, lowering="fused")

    return in_graph(add, *data)


def numpy_rows(sums: Array, data: Payloads) -> Added:
    ends = itertools.pairwise(data.row_splits)
    rows = [(data.indices[begin:end], data.values[begin:end]) for begin, end in ends]

    def call() -> None:
        for indices, values in rows:
            sums[indices] += values

    return call


def numpy_add_at(sums: Array, data: Payloads) -> Added:
    return lambda: np.add.at(sums, data.indices, data.values)


def tensorflow_scatter(sums: Array, data: Payloads) -> Added:
    tf = importlib.import_module("tensorflow")
    return in_graph(lambda i, v: tf.scatter_nd(i, v, [len(sums)]), data.indices[:, None], data.values)


def tensorflow_segments(sums: Array, data: Payloads) -> Added:
    tf = importlib.import_module("tensorflow")
    return in_graph(lambda i, v: tf.math.unsorted_segment_sum(v, i, len(sums)), data.indices, data.values)


def in_graph(function: Callable[..., Any], *arrays: Array) -> Added:
    graph = importlib.import_module("tensorflow").function(function, reduce_retracing=True)
    tensors = list(map(tensor, arrays))
    return lambda: graph(*tensors)


def torch_index_add(sums: Array, data: Payloads) -> Added:
    target, indices, values = map(torch_tensor, (sums, data.indices, data.values))
    return lambda: target.index_add_(0, indices, values)


OURS: dict[str, Callable[[Array, Payloads], Added]] = {
    "bytes once": bytes_once,
    "kernel": adding_kernel,
    "zeros and kernel": zeros_and_kernel,
    "zeros and op": zeros_and_op,
}
OTHERS: dict[str, Callable[[Array, Payloads], Added]] = {
    "NumPy, row by row": numpy_rows,
    "NumPy add.at": numpy_add_at,
    "TensorFlow scatter_nd": tensorflow_scatter,
    "TensorFlow unsorted_segment_sum": tensorflow_segments,
    "torch index_add_": torch_index_add,
}


def scatter_row(n: int, count: int, share: float) -> list[str]:
    data, sums, ways = payloads(n, count, share), np.zeros(n, np.float32), {}
    expected = np.bincount(data.indices, data.values, n).astype(np.float32)

    def cleared() -> tuple[()]:
        sums.fill(0)
        return ()

    for way, make in (OURS | OTHERS).items():
        try:
            call = make(sums, data)
        except ModuleNotFoundError:
            continue
        ways[way], result = timed(call, 15 if way in OURS else SLOW_RUNS, cleared)
        if way != "bytes once":
            np.testing.assert_array_equal(sums if result is None else np.asarray(result), expected)
    return [
        *(f"{n:.0e}", str(count), str(share), milliseconds(ways, "bytes once"), milliseconds(ways, "kernel")),
        f"{len(data.values) / ways['kernel']:.2e}",
        ratio(ways, "kernel", "bytes once"),
        ratio(ways, "zeros and op", "zeros and kernel"),
        *(ratio(ways, way, "kernel") for way in OTHERS),
    ]


def draw(cases: dict[tuple[int, float], Times], path: Path) -> None:
    """Draws the speed-up of the kernel over each way that ran."""
    peers = [peer for peer in PEERS if any(peer in ways for ways in cases.values())]

    def paint(figure: Any) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        panels = figure.subplots(1, len(peers), sharey=True, squeeze=False)[0]
        for axes, peer in zip(panels, peers, strict=True):
            ends = []
            for n, color in zip(SIZES, pictures.COLORS, strict=False):
                values = [cases[n, share][peer] / cases[n, share]["kernel"] for share in SHARES]
                axes.plot(SHARES, values, marker="o", color=color)
                ends.append((f"n = {n:,}", SHARES[-1], values[-1], color))
            axes.set(xscale="log", yscale="log", xlabel="k / n", title=peer)
            axes.set_xticks(SHARES, [f"{share:g}" for share in SHARES])
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}x")
            axes.xaxis.set_minor_locator(LogLocator(subs=()))
            axes.yaxis.set_minor_formatter(NullFormatter())
        panels[0].set_ylabel("speed-up of the kernel")
        pictures.label_lines(panels[-1], ends)

    pictures.save(path, 4.5 * len(peers), 4, paint)


def versions() -> Iterator[str]:
    for library in LIBRARIES:
        there = importlib.util.find_spec(library) is not None
        yield f"{library} {importlib.metadata.version(library) if there else 'not installed'}"


def main(stem: str = "cpu") -> None:
    """Writes the page and the picture."""
    load = os.getloadavg()[0]
    cases = {(n, share): topk_times(n, share) for n in SIZES for share in SHARES}
    scatter_head = ["n", "payloads", "k / n", "bytes once, ms", "kernel, ms", "entries / s"]
    scatter_head += ["kernel, x bytes once", "zeros and op, x zeros and kernel"]
    text = _MADE.format(
        arguments="" if stem == "cpu" else f" {stem}",
        date=datetime.date.today(),
        processor=processor(),
        cores=os.cpu_count(),
        system=platform.system(),
        release=platform.release(),
        python=platform.python_version(),
        simd=kernels.simd_level(),
        threads=kernels.num_threads(),
        libraries=", ".join(versions()),
        load=load,
        busy=": other work shared the machine, so the figures are worse than those of a quiet one"
        * (load > 0.5),
        stem=stem,
        topk=topk_table(cases),
        data=table(["data", "k / n", "floor, ms", "kernel, x floor"], [*data_rows()]),
        model=table(
            ["model", "parameters", "tensors", "flat, ms", *(f"{way}, x flat" for way in LISTS)],
            [model_row(name, sizes()) for name, sizes in MODELS.items()],
        ),
        scatter=table(
            [*scatter_head, *(f"{way}, x kernel" for way in OTHERS)], [scatter_row(*case) for case in CASES]
        ),
    )
    (RESULTS / f"{stem}.md").write_text(text, encoding="utf-8")
    draw(cases, RESULTS / f"{stem}_speedup.svg")


if __name__ == "__main__":
    main(*sys.argv[1:])
