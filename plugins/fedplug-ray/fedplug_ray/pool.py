"""Runs the clients of a round on workers. Their results are taken in this process, in client order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from weakref import WeakKeyDictionary

import ray
import tensorflow_federated as tff

from fedplug.tff.runtime.inprocess.invocation import ClientPool, Invocation
from fedplug.tff.runtime.inprocess.passes import ClientWork
from fedplug_ray.messages import ClientTask, Shared, Value, columns_of, deserialize, serialize
from fedplug_ray.worker import described
from fedplug_ray.workers import Workers

__all__ = ["WorkerPool"]

_Paths = frozenset[tuple[int, ...]]


class WorkerPool(ClientPool):
    """The threads that each wait for a client on a worker.

    Args:
        workers: The workers.
        width: Number of workers.
    """

    def __init__(self, workers: Workers, width: int) -> None:
        super().__init__(width)
        self.workers = workers
        self._sent: WeakKeyDictionary[ClientWork, tuple[Shared, dict[str, _Paths]]] = WeakKeyDictionary()
        self._sending = threading.Lock()

    def elsewhere(
        self, work: ClientWork, given: Mapping[str, Value], invocation: Invocation
    ) -> Callable[[int], Value] | None:
        """Returns the function that has a client's work done on a worker.

        None if there is nothing to compute, or if a value cannot be sent, such as a function.
        """
        if not work.steps:
            return None
        with self._sending:
            if work not in self._sent:
                self._sent[work] = _shared(described(work)), _used_parts(work)
            program, used = self._sent[work]
        parts = {name: _only(value, used[name]) for name, value in given.items() if name in used}
        columns = [column for name in parts for column in columns_of(parts[name])]
        try:
            values = _shared({name: serialize(value) for name, value in parts.items()})
        except TypeError:
            return None

        def on_a_worker(client: int) -> Value:
            own = [serialize(column[client]) for column in columns]
            count = invocation.num_clients
            task = ClientTask(program, values, own, invocation.name, client, count)
            result = self.workers.run(
                lambda actor, number: actor.run.remote(number, task),
                f"client {client} of {count} (counted from 0) of {invocation.name}",
                invocation.cancellation.check,
            )
            return deserialize(result)

        return on_a_worker


def _shared(value: Value) -> Shared:
    reference = ray.put(value)
    return Shared(reference.hex(), [reference])


def _used_parts(work: ClientWork) -> dict[str, _Paths]:
    """Returns the paths of the parts that the work reads, by name: it is not sent a server's optimizer."""
    used: dict[str, set[tuple[int, ...]]] = {}
    blocks = [step.block for step in work.steps] + [part.block for part in work.contributions]
    for block in blocks:
        for name, path in _selections(block):
            used.setdefault(name, set()).add(path)
    for name in work.kept:
        used.setdefault(name, set()).add(())
    return {name: frozenset(paths) for name, paths in used.items() if name in work.uses}


def _selections(block: object, path: tuple[int, ...] = ()) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields the names in a building block, each with the path of the part that is selected."""
    framework = tff.framework
    if isinstance(block, framework.Reference):
        yield block.name, path
    elif isinstance(block, framework.Selection):
        yield from _selections(block.source, (block.as_index(), *path))
    elif isinstance(block, framework.Lambda):
        yield from _selections(block.result)
    elif isinstance(block, framework.Call):
        yield from _selections(block.function)
        yield from _selections(block.argument) if block.argument is not None else ()
    elif isinstance(block, framework.Struct):
        for _, part in tff.structure.iter_elements(block):
            yield from _selections(part)
    elif isinstance(block, framework.Block):
        for _, value in block.locals:
            yield from _selections(value)
        yield from _selections(block.result)


def _only(value: Value, paths: _Paths) -> Value:
    """Returns a value without the parts that no path leads to, in whose place are empty structs."""
    if () in paths or type(value) is not tuple:
        return value
    inner = [frozenset(path[1:] for path in paths if path[0] == index) for index in range(len(value))]
    return tuple([_only(part, its) if its else () for part, its in zip(value, inner, strict=True)])
