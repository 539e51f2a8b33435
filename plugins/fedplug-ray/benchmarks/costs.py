"""Measures what a round on a Ray cluster costs, for ``scaling.py``: time per client and slice, and bytes."""

from __future__ import annotations

import collections
import contextlib
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

CLASSES, FEATURES, EXAMPLES = 10, 64, 45
SLICE = 8


@dataclass
class Costs:
    """Measured costs in seconds and bytes.

    Attributes:
        client: Samples of the time of one client in its slice, as the driver sees it, with transfers.
        merge: Samples of the time of one merge of accumulators, as the driver sees it.
        driver_round: The driver's processor time for a round, whatever its size.
        driver_slice: The driver's processor time for every slice that it hands out itself.
        block_slice: The driver's processor time per slice in blocks of 8 and of 64, by block size.
        coordinator_slice: The coordinator's processor time for every slice.
        values_client: The driver's time for a client before the first and after the last block.
        round_bytes: Bytes that the driver sends and receives once per round.
        slice_bytes: Bytes that the driver sends with every slice.
    """

    client: list[float] = field(default_factory=list)
    merge: list[float] = field(default_factory=list)
    driver_round: float = 0.0
    driver_slice: float = 0.0
    block_slice: dict[int, float] = field(default_factory=dict)
    coordinator_slice: float = 0.0
    values_client: float = 0.0
    round_bytes: float = 0.0
    slice_bytes: float = 0.0


def data_of(client: int) -> tf.data.Dataset:
    """Returns the data of a client, about as large as in examples/digits.toml."""
    rng = np.random.default_rng(client)
    x = rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, EXAMPLES).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(15)


def build_process() -> Any:
    """Builds federated averaging of 38,410 parameters that sends 1 % of every update, with error feedback."""
    import fedplug

    def model_fn() -> Any:
        layers = [
            tf.keras.layers.Dense(512, "relu", input_shape=(FEATURES,)),
            tf.keras.layers.Dense(CLASSES),
        ]
        spec = (tf.TensorSpec([None, FEATURES], tf.float32), tf.TensorSpec([None], tf.int32))
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return tff.learning.models.from_keras_model(tf.keras.Sequential(layers), loss=loss, input_spec=spec)

    sgd = tff.learning.optimizers.build_sgdm(0.1)
    return fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, encoder="topk(0.01)")


@contextmanager
def watched(costs: Costs) -> Iterator[collections.Counter[str]]:
    """Counts the bytes that the driver exchanges with Ray, and times slices and merges."""
    import ray
    from fedplug_ray.runtime import dispatch, slices

    sizes: collections.Counter[str] = collections.Counter()
    put, get, part, wait = ray.put, ray.get, slices.Slice, dispatch.Workers.wait
    began: dict[Any, float] = {}
    give = dispatch.Workers.give

    def size(value: Any) -> int:
        return len(ray.cloudpickle.dumps(value))

    def counting_put(value: Any) -> Any:
        sizes["round"] += size(value)
        return put(value)

    def counting_get(reference: Any, **options: Any) -> Any:
        value = get(reference, **options)
        sizes["round"] += size(value)
        return value

    def counting_slice(*arguments: Any) -> Any:
        made = part(*arguments)
        sizes["slices"] += size(made)
        return made

    def timed_give(self: Any, task: Any, node: str) -> None:
        began[task] = time.perf_counter()
        give(self, task, node)

    def timed_wait(self: Any) -> Any:
        ended = wait(self)
        if ended is not None:
            seconds = time.perf_counter() - began.pop(ended[0])
            if ended[0].consumes:
                costs.merge.append(seconds)
            else:
                costs.client.append(seconds / SLICE)
        return ended

    with (
        mock.patch.object(ray, "put", counting_put),
        mock.patch.object(ray, "get", counting_get),
        mock.patch.object(slices, "Slice", counting_slice),
        mock.patch.object(dispatch.Workers, "give", timed_give),
        mock.patch.object(dispatch.Workers, "wait", timed_wait),
    ):
        yield sizes


class Training:
    """Rounds of the process on the current runtime; workers make the data and keep the states."""

    def __init__(self, clients: int) -> None:
        from fedplug_ray.runtime import on_worker

        self._process = build_process()
        self._state = self._process.initialize()
        self._states = [self._process.initialize_client()] * clients
        self._data = [on_worker(data_of, client) for client in range(clients)]

    def round(self) -> tuple[float, float]:
        """Runs a round; returns its seconds, and the processor seconds of this process, the driver."""
        began, processor = time.perf_counter(), time.process_time()
        output = self._process.next(self._state, self._data, self._states)
        seconds = time.perf_counter() - began, time.process_time() - processor
        self._state, self._states = output["state"], output["client_states"]
        assert output["metrics"]["aggregator"]["clients"] == len(self._data)
        return seconds


def measure(workers: int, clients: int, rounds: int) -> float:
    """Returns the median seconds of a round."""
    import fedplug

    with fedplug.use_runtime("ray", workers=workers, clients_per_slice=SLICE, client_results="handles"):
        training = Training(clients)
        training.round()  # workers start, functions are compiled
        training.round()  # the first with states of the cluster's
        return statistics.median(training.round()[0] for _ in range(rounds))


class Bookkeeping:
    """Rounds with almost no work for the clients, but the usual work for the driver."""

    def __init__(self, clients: int) -> None:
        from fedplug_ray.runtime import on_worker

        @tff.tensorflow.computation(np.int32, np.float32)
        def work(number: Any, state: Any) -> Any:
            return tf.cast(number, tf.float32), state + 1.0

        @tff.federated_computation(
            tff.FederatedType(np.int32, tff.CLIENTS), tff.FederatedType(np.float32, tff.CLIENTS)
        )
        def next_fn(numbers: Any, states: Any) -> Any:
            done = tff.federated_map(work, (numbers, states))
            return tff.federated_sum(done[0]), done[1]

        self._next = next_fn
        self._data = [on_worker(np.int32, 1) for _ in range(clients)]
        self._states: list[Any] = [0.0] * clients

    def round(self) -> ProcessorTimes:
        """Runs a round; returns its processor times."""
        before, coordinators = [time.process_time()], _coordinators_time()
        with _marks_of_handing_out(before):
            total, self._states = self._next(self._data, self._states)
        assert total == len(self._data)
        began, first, last, end = (*before, time.process_time())
        return ProcessorTimes(first - began + end - last, last - first, _coordinators_time() - coordinators)


class ProcessorTimes(NamedTuple):
    """Processor seconds of a round: the driver's outside of and during handing out, and the coordinators'."""

    values: float
    handing_out: float
    coordinators: float


@contextmanager
def _marks_of_handing_out(marks: list[float]) -> Iterator[None]:
    """Notes the driver's processor time at the beginning and the end of handing out."""
    from fedplug_ray.runtime import dispatch

    run = dispatch.Workers.run

    def marked(*arguments: Any) -> None:
        marks.append(time.process_time())
        run(*arguments)
        marks.append(time.process_time())

    with mock.patch.object(dispatch.Workers, "run", marked):
        yield


def _coordinators_time() -> float:
    """The processor seconds that the coordinators of this machine have used."""
    ticks = 0
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if cmdline.read_text().startswith("ray::Coordinator"):
                after_name = (cmdline.parent / "stat").read_text().rpartition(")")[2].split()
                ticks += int(after_name[11]) + int(after_name[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def times_per_client(few: int, many: int, rounds: int) -> ProcessorTimes:
    """Returns the processor times per client: the difference between rounds of many and of few."""
    medians = []
    for clients in (few, many):
        bookkeeping = Bookkeeping(clients)
        bookkeeping.round()
        bookkeeping.round()
        times = [bookkeeping.round() for _ in range(rounds)]
        medians.append([statistics.median(column) for column in zip(*times, strict=True)])
    return ProcessorTimes(*((y - x) / (many - few) for x, y in zip(*medians, strict=True)))


def measure_costs(clients: int, rounds: int) -> Costs:
    """Returns the costs of rounds on one worker, and of handing out by two coordinators."""
    import fedplug

    costs = Costs()
    options: dict[str, Any] = {"clients_per_slice": SLICE, "client_results": "handles"}
    with fedplug.use_runtime("ray", workers=2, coordinators=2, **options):
        costs.block_slice[8] = times_per_client(2_400, 7_200, rounds).handing_out * SLICE
        times = times_per_client(34_000, 68_000, rounds)
        costs.block_slice[64] = times.handing_out * SLICE
        costs.values_client = times.values
        costs.coordinator_slice = times.coordinators * SLICE
    with fedplug.use_runtime("ray", workers=1, **options):
        times = times_per_client(400, 2_000, rounds)
        costs.driver_slice = (times.values + times.handing_out) * SLICE
        training = Training(clients)
        training.round()
        training.round()
        driver = statistics.median(training.round()[1] for _ in range(rounds))
        with watched(costs) as sizes:
            for _ in range(rounds):
                training.round()
    slices = clients / SLICE
    costs.driver_round = max(0.0, driver - costs.driver_slice * slices)
    costs.round_bytes = sizes["round"] / rounds
    costs.slice_bytes = sizes["slices"] / rounds / slices
    return costs
