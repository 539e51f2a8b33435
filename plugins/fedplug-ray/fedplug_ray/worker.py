"""A worker: a Ray actor that does the work of clients, one after the other.

A worker fetches each computation, and the values that all clients use, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.ops.lowering import resolve_lowering
from fedplug.tff.runtime.graphs.devices import hide_gpus
from fedplug.tff.runtime.inprocess.invocation import ClientPool, Invocation
from fedplug.tff.runtime.inprocess.passes import ClientWork
from fedplug.tff.runtime.inprocess.planner import client_step, contribution
from fedplug.tff.runtime.tff_internals import computation_pb2
from fedplug.tff.runtime.tff_repairs import allow_deep_messages
from fedplug_ray.messages import ClientTask, Shared, Value, deserialize, serialize

__all__ = ["Worker", "described", "start_worker"]

# The numbers of computations and of sets of values that a worker keeps. It fetches others again.
_KEPT_WORK, _KEPT_VALUES = 32, 2


def described(work: ClientWork) -> tuple[Any, ...]:
    """Returns the work of a client in a form that can be sent."""
    steps = [(step.names[0], step.block.proto.SerializeToString()) for step in work.steps]
    parts = [part.block.proto.SerializeToString() for part in work.contributions]
    return steps, parts, list(work.kept)


def _restored(steps: Any, parts: Any, kept: list[str]) -> ClientWork:
    """Undoes `described`."""

    def block(proto: bytes) -> Value:
        if b"Fedplug>" in proto:
            resolve_lowering("fused")  # loads the op library, or raises
        return tff.framework.ComputationBuildingBlock.from_proto(
            computation_pb2.Computation.FromString(proto)
        )

    made = [client_step(name, block(proto)) for name, proto in steps]
    return ClientWork(made, [contribution(block(proto)) for proto in parts], kept)


class Worker:
    """An actor that does the work of clients, with one TensorFlow thread.

    The order of additions in an operation may depend on its number of threads. With one thread, a client's
    result does not depend on the machine's processors.

    Args:
        setup: A function that is called first, for instance to load a library of custom ops.
    """

    def __init__(self, setup: Callable[[], object] | None = None) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        hide_gpus()
        allow_deep_messages()
        if setup is not None:
            setup()
        self._pool = ClientPool(1)
        self._work: dict[str, Value] = {}
        self._values: dict[str, Value] = {}
        self._changing = threading.Lock()
        self._running: dict[int, Invocation] = {}

    def ready(self) -> None:
        """Returns once the worker has started."""

    def run(self, number: int, task: ClientTask) -> Value:
        """Does the work of a client, under a number for `stop`.

        Returns:
            The parts of the reductions and the kept values, serialized.

        Raises:
            ComputationError: A part of the work failed.
        """
        work: ClientWork = _once(self._work, task.work, _KEPT_WORK, lambda found: _restored(*found))
        given = _once(self._values, task.given, _KEPT_VALUES, lambda found: found)
        invocation = Invocation(task.computation, task.of, self._pool)
        with self._may_be_stopped(number, invocation):
            own = map(deserialize, task.own)
            values = {name: deserialize(value, own) for name, value in given.items()}
            return serialize(work.run(values, invocation.of(task.client)))

    def stop(self, number: int) -> None:
        """Cancels a running task, which then ends with an error."""
        with self._changing:
            if number in self._running:
                self._running[number].cancellation.cancel()

    @contextmanager
    def _may_be_stopped(self, number: int, invocation: Invocation) -> Iterator[None]:
        with self._changing:
            self._running[number] = invocation
        try:
            yield
        finally:
            with self._changing:
                del self._running[number]


def _once(known: dict[str, Value], shared: Shared, limit: int, convert: Callable[[Any], Any]) -> Value:
    """Returns a shared value, which is fetched and converted once."""
    if shared.name not in known:
        found = convert(ray.get(shared.reference[0]))
        while len(known) >= limit:
            del known[next(iter(known))]  # the oldest
        known[shared.name] = found
    return known[shared.name]


def start_worker(setup: Callable[[], object] | None = None) -> Value:
    """Returns the actor of a new `Worker`, which may still be starting."""
    # Two threads, so that `stop` arrives while `run` runs. `Workers` replaces dead workers, not Ray.
    actor = ray.remote(Worker).options(num_cpus=1, max_restarts=0, max_concurrency=2)
    return actor.remote(setup)
