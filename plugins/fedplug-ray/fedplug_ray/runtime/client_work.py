"""The work of one worker: it runs a stage for a slice of clients, and merges accumulators.

Both are pure functions of their arguments, so that another worker can repeat them. A worker fetches programs
and the driver's values once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ComputationError
from fedplug.ops.lowering import resolve_lowering
from fedplug.tff.runtime.computation_errors import computation_error
from fedplug.tff.runtime.graphs.devices import hide_gpus
from fedplug.tff.runtime.inprocess.clients import ClientPool
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.planner import plan
from fedplug.tff.runtime.inprocess.values import Clients, ingest
from fedplug.tff.runtime.message_depth import allow_deep_messages
from fedplug.tff.runtime.tff_internals import computation_pb2
from fedplug_ray.runtime.messages import Fetched, Given, OnWorker, Shared, Slice
from fedplug_ray.runtime.serialization import deserialize, expand, serialize, shrink
from fedplug_ray.runtime.stored_states import leave_states, read_states
from fedplug_ray.shards.references import StateReference

__all__ = ["ClientWork"]

# Number of stages whose driver values are kept; older ones are fetched again.
_KEPT_INPUTS = 2

# Number of programs that are kept; a training process has about ten, of which two run in every round.
_KEPT_PROGRAMS = 32


class ClientWork:
    """Runs the tasks of a `Worker`, with one TensorFlow thread per client.

    The order of additions in an operation may depend on its number of threads. With one thread, a client's
    result does not depend on the machine's processors.

    Args:
        clients: Number of clients that run at a time.
        setup: A function that is called first, for instance to load a library of custom ops.
    """

    def __init__(self, clients: int, setup: Callable[[], Any] | None) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        hide_gpus()
        allow_deep_messages()
        if setup is not None:
            setup()
        self._pool = ClientPool(clients)
        self._programs: dict[str, tuple[Any, tff.FunctionType]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._changing = threading.Lock()
        self._running: dict[int, Invocation] = {}
        self._stopped: set[int] = set()

    def run(self, task: int, program: Shared, inputs: Shared, part: Slice, *fetched: Any) -> tuple[Any, ...]:
        """Runs a stage for some clients.

        Args:
            task: The number of the task, for `stop`.
            program: `Stage.run`.
            inputs: The values of `Stage.inputs`, serialized.
            part: The clients.
            *fetched: Clients' values that stayed in the cluster.

        Returns:
            None, the accumulators, and one value per client for every value of `Stage.keeps`. Values are
            serialized or `Staged`.

        Raises:
            ComputationError: A part of the stage failed; `client` is the position in the round.
        """
        function, signature = self._program(program)
        kinds = [kind for _, kind in tff.structure.iter_elements(signature.parameter)]
        given = self._given(inputs, kinds)
        invocation = Invocation(part.computation, part.count, self._pool)
        with self._may_be_stopped(task, invocation), _in_the_round(part):
            clients = tuple(
                Clients(_values(column, kind.member, fetched))
                for column, kind in zip(part.values, kinds[len(given) :], strict=True)
            )
            totals, *keeps = function((*given, *clients), invocation)
        totals_kind, *keep_kinds = [kind for _, kind in tff.structure.iter_elements(signature.result)]
        kept: list[Any] = []
        for column, kind, stays in zip(keeps, keep_kinds, part.stays, strict=True):
            values = column if isinstance(column, Clients) else [column] * part.count
            if stays:
                kept += leave_states(part.homes, values, kind.member)
            else:
                kept += [serialize(value, kind) for value in values]
        return None, shrink(serialize(totals, totals_kind)), *kept

    def merge(self, task: int, program: Shared, *totals: Any) -> tuple[None, Any]:
        """Merges accumulators from left to right; returns None and the result, serialized.

        Args:
            task: The number of the task, for `stop`.
            program: `Stage.merge`.
            *totals: Accumulators to merge.
        """
        function, signature = self._program(program)
        invocation = Invocation("the merge of accumulators", 0, self._pool)
        with self._may_be_stopped(task, invocation):
            total, *rest = [deserialize(expand(total), signature.result) for total in totals]
            for other in rest:
                total = function((total, other), invocation)
        return None, shrink(serialize(total, signature.result))

    def stop(self, task: int) -> None:
        """Cancels a running task, which then ends with an error."""
        with self._changing:
            self._stopped.add(task)
            if task in self._running:
                self._running[task].cancellation.cancel()

    def _program(self, program: Shared) -> tuple[Any, tff.FunctionType]:
        known = self._programs.pop(program.name, None) or self._planned(program)
        self._programs[program.name] = known  # most recently used last
        while len(self._programs) > _KEPT_PROGRAMS:
            del self._programs[next(iter(self._programs))]
        return known

    def _planned(self, program: Shared) -> tuple[Any, tff.FunctionType]:
        serialized = ray.get(program.reference[0])
        if b"Fedplug>" in serialized:
            resolve_lowering("fused")  # loads the op library, or raises
        proto = computation_pb2.Computation.FromString(serialized)
        block = tff.framework.ComputationBuildingBlock.from_proto(proto)
        return plan(block).run({}, Invocation("", 0, self._pool)), block.type_signature

    def _given(self, inputs: Shared, kinds: list[tff.Type]) -> tuple[Any, ...]:
        if inputs.name not in self._inputs:
            values = ray.get(inputs.reference[0])
            given = tuple(
                deserialize(value, kind) for value, kind in zip(values, kinds[: len(values)], strict=True)
            )
            while len(self._inputs) >= _KEPT_INPUTS:
                del self._inputs[next(iter(self._inputs))]  # the oldest
            self._inputs[inputs.name] = given
        return self._inputs[inputs.name]

    @contextmanager
    def _may_be_stopped(self, task: int, invocation: Invocation) -> Iterator[None]:
        with self._changing:
            self._running[task] = invocation
            self._stopped = {number for number in self._stopped if number >= task}  # others have ended
            if task in self._stopped:
                invocation.cancellation.cancel()
        try:
            yield
        finally:
            with self._changing:
                del self._running[task]


@contextmanager
def _in_the_round(part: Slice) -> Iterator[None]:
    """Converts errors so that they name the client's position in the round and can be pickled."""
    try:
        yield
    except ComputationError as error:
        client = None if error.client is None else part.first + error.client
        last = part.first + part.count - 1
        where = f"among clients {part.first} to {last} of {part.of}" if part.count else "without clients"
        raise computation_error(f"{where}: {error}", error, client) from None
    except tf.errors.OpError as error:
        message = f"{part.computation} failed: {type(error).__name__}: {error.message}"
        raise computation_error(message, error) from None


def _values(
    column: list[Given | OnWorker | StateReference | Fetched], kind: tff.Type, fetched: tuple[Any, ...]
) -> Iterator[Any]:
    references = [value for value in column if isinstance(value, StateReference)]
    states = iter(read_states(references, kind) if references else [])
    for value in column:
        yield next(states) if isinstance(value, StateReference) else _value(value, kind, fetched)


def _value(value: Given | OnWorker | Fetched, kind: tff.Type, fetched: tuple[Any, ...]) -> Any:
    if isinstance(value, Fetched):
        return deserialize(fetched[value.position], kind)
    if isinstance(value, OnWorker):
        return ingest(value.function(*value.arguments), kind)
    return deserialize(value.value, kind)
