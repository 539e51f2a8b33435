"""Compares both runtimes on the same work, and measures their memory: writes benchmarks/results/runtime.md.

    python -m benchmarks.runtime    # ten minutes; also writes results/runtime_memory.png

The native runtime is TFF's stock worker. Both run in this process, one after the other, and every result is
checked. Memory is measured in new processes: over many rounds of federated averaging with new data sets, as
in an experiment, and at the peak of a round of many clients, each of which sends 10 MB.
"""

from __future__ import annotations

import collections
import datetime
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug import pictures
from fedplug.diagnostics.environment import processor
from fedplug.tff.runtime import use_runtime

RESULTS = Path(__file__).parent / "results" / "runtime.md"
RUNTIMES = ("native", "inprocess")
CLIENTS = 10
ROUNDS, WARM_UP = 500, 50
TEN_MEGABYTES = tff.TensorType(np.float32, [2_500_000])
ITERATOR = tff.learning.LoopImplementation.DATASET_ITERATOR
REDUCE = tff.learning.LoopImplementation.DATASET_REDUCE

_MADE = """# Runtimes

Made by `python -m benchmarks.runtime` on {date}: {machine}, load average {load:.1f} when it began,
TensorFlow {tensorflow}, TFF {tff}. Both runtimes in one process, one after the other.

| ms: median (best) | native | inprocess | ratio of medians |
| --- | ---: | ---: | ---: |
{times}
`native` is TFF's stock worker, supervised by fedplug. Start-up is that of a new context in a process that has
imported TFF; TFF's own way to start the same worker takes about a second.

## Memory

![Resident memory over {rounds} rounds](runtime_memory.png)

FedAvg of the small model, 10 clients, new data sets in every round. Resident MiB, medians of 20 rounds:

| | rounds {warm_up} to {warm} | the last 20 rounds | growth |
| --- | ---: | ---: | ---: |
{growth}
One round, in a fresh process each, in which every client sends an update of 10 MB (2.4 million parameters).
What clients made is reduced as they finish, so the peak hardly depends on their number:

| clients of the round | peak resident MiB, in process |
| ---: | ---: |
{peaks}"""


@tff.tensorflow.computation(np.int32)
def add_one(x: Any) -> Any:
    return x + 1


def of_arrays(function: Callable[[Any], Any]) -> tff.Computation:
    return tff.federated_computation(function, tff.FederatedType(TEN_MEGABYTES, tff.CLIENTS))


def digits_like(clients: int, examples: int, features: int = 64) -> list[tf.data.Dataset]:
    """Images of 10 classes that a linear model can separate, in batches of 16."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(10, features)).astype(np.float32)
    datasets = []
    for _ in range(clients):
        y = rng.integers(0, 10, examples).astype(np.int32)
        x = centers[y] + 0.1 * rng.normal(size=(examples, features)).astype(np.float32)
        datasets.append(tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=x, y=y)).batch(16))
    return datasets


def fed_avg(
    layers: list[int], features: int, loop: Any = ITERATOR, rate: float = 0.1
) -> tff.learning.templates.LearningProcess:
    """TFF's weighted federated averaging of a dense network with 10 classes."""

    def model_fn() -> tff.learning.models.VariableModel:
        dense = [tf.keras.layers.Dense(width, "relu") for width in layers]
        network = tf.keras.Sequential([tf.keras.Input([features]), *dense, tf.keras.layers.Dense(10)])
        return tff.learning.models.from_keras_model(
            network,
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=collections.OrderedDict(
                x=tf.TensorSpec([None, features], tf.float32), y=tf.TensorSpec([None], tf.int32)
            ),
        )

    return tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(rate), loop_implementation=loop
    )


def timed(call: Callable[[], Any], runs: int) -> tuple[list[float], Any]:
    """Returns the milliseconds of some runs after a first one, and the last result."""
    times, result = [], None
    for _ in range(runs + 1):
        begin = time.perf_counter()
        result = call()
        times.append(1e3 * (time.perf_counter() - begin))
    return times[1:], result


def measured(name: str) -> Iterator[tuple[str, list[float]]]:
    """Yields each work with its times in a runtime."""

    def first_result() -> int:
        with use_runtime(name):
            return int(add_one(1))

    times, result = timed(first_result, 5)
    assert result == 2
    yield "start-up to the first result", times
    with use_runtime(name):
        times, result = timed(lambda: add_one(1), 200)
        assert result == 2
        yield "trivial computation", times
        arrays = [np.full(TEN_MEGABYTES.shape, n, np.float32) for n in range(CLIENTS)]
        for work, function, expected in (
            ("sum", tff.federated_sum, 45.0),
            ("mean", lambda values: tff.federated_mean(values), 4.5),
            ("pass-through", lambda values: values, arrays),
        ):
            computation = of_arrays(function)
            times, result = timed(lambda: computation(arrays), 5)  # noqa: B023
            assert np.all(np.asarray(result) == expected)
            yield f"{work} of 10 x 10 MB", times
        small, large = "4,810 parameters, 10 clients", "2.4 million parameters, 10 clients"
        for work, process, data, runs in (
            (f"{small}, iterator loop", fed_avg([64], 64), digits_like(CLIENTS, 144), 15),
            (f"{small}, reduce loop", fed_avg([64], 64, REDUCE), digits_like(CLIENTS, 144), 15),
            (large, fed_avg([2048, 1024], 128, rate=0.01), digits_like(CLIENTS, 32, 128), 5),
            ("650 parameters, 100 clients", fed_avg([], 64), digits_like(100, 16), 3),
            ("650 parameters, 1,000 clients", fed_avg([], 64), digits_like(1000, 16), 3),
        ):
            state = process.initialize()
            times, output = timed(lambda: process.next(state, data), runs)  # noqa: B023
            first = output.metrics["client_work"]["train"]["loss"]
            for _ in range(3):
                output = process.next(output.state, data)
            assert output.metrics["client_work"]["train"]["loss"] < first
            yield f"FedAvg, {work}", times


def milliseconds(value: float) -> str:
    """Formats three significant digits without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times_table() -> str:
    text = ""
    for both in zip(*[list(measured(name)) for name in RUNTIMES], strict=True):
        medians = [statistics.median(times) for _, times in both]
        cells = [
            f"{milliseconds(m)} ({milliseconds(min(times))})"
            for m, (_, times) in zip(medians, both, strict=True)
        ]
        text += f"| {both[0][0]} | {' | '.join(cells)} | {medians[0] / medians[1]:.1f} |\n"
    return text


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def over_rounds(runtime: str) -> dict[str, list[float]]:
    """The resident memory after every round, by process."""
    with use_runtime(runtime) as handle:
        process = fed_avg([64], 64)
        state = process.initialize()
        worker = getattr(handle.context, "worker", None)
        watched = {runtime: os.getpid()} if worker is None else {"native: worker": worker.pid}
        if worker is not None:
            watched["native: this process"] = os.getpid()
        memory: dict[str, list[float]] = {name: [] for name in watched}
        for _ in range(ROUNDS):
            output = process.next(state, digits_like(CLIENTS, 144))
            state = output.state
            for name, pid in watched.items():
                memory[name].append(resident_mib(pid))
        assert output.metrics["client_work"]["train"]["loss"] < 0.1
    return memory


def peak_of_a_round(clients: int) -> float:
    """The peak resident memory of this process after one round of 10 MB updates."""
    with use_runtime("inprocess"):
        process = fed_avg([2048, 1024], 128, rate=0.01)
        output = process.next(process.initialize(), digits_like(clients, 16, 128))
        assert output.metrics["client_work"]["train"]["num_examples"] == clients * 16
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def growth_row(name: str, memory: list[float]) -> str:
    before, after = (statistics.median(part) for part in (memory[WARM_UP : WARM_UP + 20], memory[-20:]))
    return f"| {name} | {before:,.0f} | {after:,.0f} | {(after / before - 1) * 100:+.1f} % |\n"


def draw(memory: dict[str, list[float]]) -> None:
    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for values, color in zip(memory.values(), pictures.COLORS, strict=False):
            axes.plot(range(1, len(values) + 1), values, color=color, linewidth=1)
        axes.set(xlabel="round", ylabel="resident memory, MiB", ylim=(0, None))
        colored = zip(memory.items(), pictures.COLORS, strict=False)
        pictures.label_lines(axes, [(name, len(v), v[-1], color) for (name, v), color in colored])

    pictures.save(RESULTS.with_name("runtime_memory.png"), 8, 4, paint)


def in_fresh_process(measure: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        return fresh.apply(measure, arguments)


def main() -> None:
    load, times = os.getloadavg()[0], times_table()
    memory: dict[str, list[float]] = {}
    for runtime in ("inprocess", "native"):
        memory |= in_fresh_process(over_rounds, runtime)
    draw(memory)
    text = _MADE.format(
        date=datetime.date.today(),
        machine=f"{processor()}, {os.cpu_count()} cores",
        load=load,
        tensorflow=tf.__version__,
        tff=tff.__version__,
        times=times,
        rounds=ROUNDS,
        warm_up=WARM_UP + 1,
        warm=WARM_UP + 20,
        growth="".join(growth_row(*each) for each in memory.items()),
        peaks="".join(f"| {n:,} | {in_fresh_process(peak_of_a_round, n):,.0f} |\n" for n in (10, 100, 1000)),
    )
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
