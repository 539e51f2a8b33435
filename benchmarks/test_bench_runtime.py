"""Compares both runtimes on the same work; every case asserts the result that it times.

``pytest benchmarks/test_bench_runtime.py --benchmark-only`` prints one table at the end. The native runtime
is TFF's stock worker. TFF's own context differs only in its start-up, so that is measured as well.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime import use_runtime

RUNTIMES = ("native", "inprocess")
CLIENTS = 10
TEN_MEGABYTES = tff.TensorType(np.float32, [2_500_000])
Times = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def contexts() -> Iterator[dict[str, Any]]:
    """Starts every runtime once."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(use_runtime(name)).context for name in RUNTIMES}


@pytest.fixture(params=RUNTIMES)
def runtime(request, contexts) -> Iterator[str]:
    with tff.framework.get_context_stack().install(contexts[request.param]):
        yield request.param


@pytest.fixture(scope="module")
def times(request) -> Iterator[Times]:
    """Collects the measurements by work and runtime, and prints them after the last case."""
    collected: Times = {}
    yield collected
    lines = [
        "",
        "| ms: median (best) | native | inprocess | ratio of medians |",
        "| --- | ---: | ---: | ---: |",
    ]
    for work, by in collected.items():
        cells = [f"{_ms(by[name].median)} ({_ms(by[name].min)})" for name in RUNTIMES]
        ratio = by["native"].median / by["inprocess"].median
        lines.append(f"| {work} | {' | '.join(cells)} | {ratio:.1f} |")
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n".join(lines))


def _ms(seconds: float) -> str:
    """Formats three significant digits without an exponent."""
    milliseconds = seconds * 1e3
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


@pytest.fixture
def measure(benchmark, times) -> Callable[..., Any]:
    """Returns a function that times a call several times after a first one, and returns its result."""

    def run(work: str, name: str, call: Callable[[], Any], rounds: int) -> Any:
        benchmark.group = work
        result = benchmark.pedantic(call, rounds=rounds, warmup_rounds=1)
        times.setdefault(work, {})[name] = benchmark.stats.stats
        return result

    return run


@tff.tensorflow.computation(np.int32)
def add_one(x: Any) -> Any:
    return x + 1


def first_result(name: str) -> int:
    with use_runtime(name):
        return int(add_one(1))


def first_result_in_the_context_of_tff() -> int:
    with tff.framework.get_context_stack().install(
        tff.backends.native.create_sync_local_cpp_execution_context()
    ):
        return int(add_one(1))


@pytest.mark.parametrize("name", RUNTIMES)
def test_start_up_to_the_first_result(measure, name) -> None:
    assert measure("start-up to the first result", name, lambda: first_result(name), 5) == 2


# TFF leaves its worker's pipes and process to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.benchmark(group="start-up to the first result")
def test_start_up_of_tffs_own_context_on_the_same_worker(benchmark) -> None:
    assert benchmark.pedantic(first_result_in_the_context_of_tff, rounds=5, warmup_rounds=1) == 2


def test_trivial_computation(measure, runtime) -> None:
    assert measure("trivial computation", runtime, lambda: add_one(1), 200) == 2


@tff.federated_computation(tff.FederatedType(TEN_MEGABYTES, tff.CLIENTS))
def total(values: Any) -> Any:
    return tff.federated_sum(values)


@tff.federated_computation(tff.FederatedType(TEN_MEGABYTES, tff.CLIENTS))
def mean(values: Any) -> Any:
    return tff.federated_mean(values)


@tff.federated_computation(tff.FederatedType(TEN_MEGABYTES, tff.CLIENTS))
def pass_through(values: Any) -> Any:
    return values


@pytest.fixture(scope="module")
def ten_arrays() -> list[np.ndarray]:
    return [np.full(TEN_MEGABYTES.shape, n, np.float32) for n in range(CLIENTS)]


@pytest.mark.parametrize(("computation", "expected"), [(total, 45.0), (mean, 4.5)], ids=["sum", "mean"])
def test_reduction_of_10_clients_with_10_megabytes(
    measure, runtime, ten_arrays, computation, expected
) -> None:
    work = f"{'sum' if computation is total else 'mean'} of 10 x 10 MB"
    result = measure(work, runtime, lambda: computation(ten_arrays), 5)
    assert (result == expected).all()


def test_pass_through_of_10_clients_with_10_megabytes(measure, runtime, ten_arrays) -> None:
    result = measure("pass-through of 10 x 10 MB", runtime, lambda: pass_through(ten_arrays), 5)
    np.testing.assert_array_equal(result, ten_arrays)


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
    layers: list[int], features: int, loop: Any, rate: float = 0.1
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


def assert_learns(process: Any, state: Any, data: list[tf.data.Dataset], examples: int, output: Any) -> None:
    """Checks that `output` is of one round, and that a few more reduce the loss."""
    train = output.metrics["client_work"]["train"]
    assert train["num_examples"] == len(data) * examples
    state = output.state
    for _ in range(3):
        output = process.next(state, data)
        state = output.state
    assert output.metrics["client_work"]["train"]["loss"] < train["loss"]


ITERATOR = tff.learning.LoopImplementation.DATASET_ITERATOR
REDUCE = tff.learning.LoopImplementation.DATASET_REDUCE


@pytest.mark.parametrize("loop", [ITERATOR, REDUCE], ids=lambda loop: loop.name)
def test_federated_averaging_of_a_small_model(measure, runtime, loop) -> None:
    process, data = fed_avg([64], 64, loop), digits_like(CLIENTS, 144)
    state = process.initialize()
    work = f"FedAvg, 4,810 parameters, 10 clients, {'iterator' if loop is ITERATOR else 'reduce'} loop"
    output = measure(work, runtime, lambda: process.next(state, data), 15)
    assert_learns(process, state, data, 144, output)


def test_federated_averaging_with_2_4_million_parameters(measure, runtime) -> None:
    process, data = fed_avg([2048, 1024], 128, ITERATOR, 0.01), digits_like(CLIENTS, 32, 128)
    state = process.initialize()
    output = measure(
        "FedAvg, 2.4 million parameters, 10 clients", runtime, lambda: process.next(state, data), 5
    )
    assert_learns(process, state, data, 32, output)


@pytest.mark.parametrize("clients", [100, 1000])
def test_time_is_linear_in_the_clients(measure, runtime, clients) -> None:
    process, data = fed_avg([], 64, ITERATOR), digits_like(clients, 16)
    state = process.initialize()
    work = f"FedAvg, 650 parameters, {clients:,} clients"
    output = measure(work, runtime, lambda: process.next(state, data), 3)
    assert_learns(process, state, data, 16, output)
