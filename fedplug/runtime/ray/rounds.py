"""Runs a staged computation: slices of a fixed number of clients on workers, the rest here.

Which clients make a slice, and in which order accumulators are merged, depends on the number of clients only,
so results do not depend on the workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import ray
import tensorflow_federated as tff

from fedplug.errors import WorkerError
from fedplug.runtime.inprocess.invocation import Invocation
from fedplug.runtime.ray.client_values import ClientHandle, ClientValues, Given, OnWorker
from fedplug.runtime.ray.dispatch import Task, Workers
from fedplug.runtime.ray.serialization import deserialize, expand, serialize
from fedplug.runtime.ray.stages import DriverStep, Stage, Staged
from fedplug.runtime.ray.worker import Fetched, Shared, Slice
from fedplug.stores.ray.references import StateReference

__all__ = ["Cluster"]

# Accumulators are merged in a tree in which each node takes so many neighbours, on workers: the driver gets
# one accumulator, however many slices there are.
_FAN_IN = 8


@dataclass(frozen=True)
class _Kept:
    """A client's value that a task of this round returned, the one at `position`.

    Where it stays beside the client's state, that is its name there.
    """

    task: Task
    position: int
    type_signature: tff.Type
    client: int
    stays: bool

    def handle(self) -> ClientHandle:
        return ClientHandle(self.task.others[self.position], self.type_signature, self.client)


class _Programs(NamedTuple):
    """A stage's `run` and `merge` in the cluster."""

    run: Shared
    merge: Shared


class _ClientsLostError(Exception):
    """Slices (their numbers) were lost after some of their values had been used."""

    def __init__(self, slices: set[int]) -> None:
        super().__init__(slices)
        self.slices = slices


class Cluster:
    """Runs staged computations on workers.

    Args:
        workers: The workers.
        clients_per_slice: How many clients a worker is given at a time.
        skip_lost: Whether a round goes on without clients whose workers died too often.
    """

    def __init__(self, workers: Workers, clients_per_slice: int, skip_lost: bool) -> None:
        self.workers = workers
        self._clients_per_slice = clients_per_slice
        self._skip_lost = skip_lost
        self._programs: WeakKeyDictionary[Stage, _Programs] = WeakKeyDictionary()

    def run(self, staged: Staged, argument: Any, invocation: Invocation) -> Any:
        """Runs a computation; values that differ from client to client come as `ClientValues`.

        Raises:
            ComputationError: Something in it failed.
            WorkerError: Workers died, or took too long, more often than is allowed.
        """
        lost: set[int] = set()
        while True:
            try:
                return self._run(staged, argument, invocation, lost)
            except _ClientsLostError as late:  # as if they had not taken part
                lost |= late.slices

    def _run(self, staged: Staged, argument: Any, invocation: Invocation, lost: set[int]) -> Any:
        names = {leaf.name: _at(argument, leaf.path) for leaf in staged.leaves}
        homes = _homes(names)
        slices = {
            number: clients
            for number, clients in enumerate(_slices(invocation.num_clients, self._clients_per_slice, homes))
            if number not in lost
        }
        later = {name for step in staged.steps if isinstance(step, Stage) for name, _ in step.clients}
        before: dict[int, Task] = {}
        for step in staged.steps:
            if isinstance(step, DriverStep):
                names[step.name] = step.plan.run(names, invocation)
            else:
                stays = tuple(bool(homes) and name not in later for name, _ in step.keeps)
                before = self._stage(step, names, slices, before, invocation, homes, stays)
        for name, value in names.items():
            if isinstance(value, ClientValues):
                names[name] = _returned(value)
        return staged.result.run(names, invocation)

    def _stage(
        self,
        stage: Stage,
        names: dict[str, Any],
        slices: dict[int, range],
        before: dict[int, Task],
        invocation: Invocation,
        homes: Sequence[StateReference],
        stays: tuple[bool, ...],
    ) -> dict[int, Task]:
        """Runs a stage, adds what it gives to `names`; returns the task of every slice."""
        given = tuple(serialize(names[name], kind) for name, kind in stage.inputs)
        inputs = _share(given)
        program = self._shared(stage).run
        tasks: dict[int, Task] = {}
        for number, clients in slices.items():
            values = [[names[name][client] for client in clients] for name, _ in stage.clients]
            theirs = tuple(homes[clients.start : clients.stop])
            tasks[number] = Task(
                label=_label(clients, invocation),
                submit=self._submit_slice(program, inputs, clients, values, theirs, stays, invocation),
                node=theirs[0].home.node if theirs else "",
                needs=[before[number]] if number in before else [],
                may_be_lost=self._skip_lost,
            )
        merges = self._merges(stage, list(tasks.values()), invocation)
        self.workers.run(_in_order(list(tasks.values()), merges), _check(invocation))

        lost = {number for number, task in tasks.items() if task.lost}
        if len(lost) == len(slices):
            raise WorkerError(
                f"all clients of {invocation.name} were lost: their workers died or took too long"
            )
        if lost and before:
            raise _ClientsLostError(lost)
        for number in lost:
            del slices[number]
        for position, (name, kind) in enumerate(stage.keeps):
            column: list[ClientHandle | _Kept] = [
                ClientHandle(None, kind.member, client) for client in range(invocation.num_clients)
            ]
            for number, clients in slices.items():
                for index, client in enumerate(clients):
                    place = position * len(clients) + index
                    column[client] = _Kept(tasks[number], place, kind.member, client, stays[position])
            names[name] = ClientValues(column)
        if stage.accumulators:
            total = self._read(merges[-1] if merges else next(iter(tasks.values())), invocation)
            for (name, kind), value in zip(stage.accumulators, total, strict=True):
                names[name] = deserialize(value, kind)
        return tasks

    def _submit_slice(
        self,
        program: Shared,
        inputs: Shared,
        clients: range,
        values: list[list[Any]],
        homes: tuple[StateReference, ...],
        stays: tuple[bool, ...],
        invocation: Invocation,
    ) -> Callable[[Any, int], Sequence[ray.ObjectRef[Any]]]:
        def submit(actor: Any, number: int) -> Sequence[ray.ObjectRef[Any]]:
            references: list[ray.ObjectRef[Any]] = []

            def serialized(
                value: Given | OnWorker | StateReference | ClientHandle | _Kept,
            ) -> Given | OnWorker | StateReference | Fetched:
                if isinstance(value, Given | OnWorker | StateReference):
                    return value
                handle = value.handle() if isinstance(value, _Kept) else value
                assert handle.reference is not None  # what is lost is refused, or takes part no more
                references.append(handle.reference)
                return Fetched(len(references) - 1)

            columns = tuple([serialized(value) for value in column] for column in values)
            part = Slice(
                invocation.name, clients.start, len(clients), invocation.num_clients, columns, homes, stays
            )
            options = actor.run.options(num_returns=2 + len(stays) * len(clients))
            return list(options.remote(number, program, inputs, part, *references))

        return submit

    def _merges(self, stage: Stage, tasks: list[Task], invocation: Invocation) -> list[Task]:
        """Returns the tasks that merge the accumulators, the last one into one."""
        if not stage.accumulators:
            return []
        program = self._shared(stage).merge

        def merge(needs: list[Task]) -> Task:
            def submit(actor: Any, number: int) -> Sequence[ray.ObjectRef[Any]]:
                totals = [need.result for need in needs if not need.lost]
                return list(actor.merge.options(num_returns=2).remote(number, program, *totals))

            return Task(f"a merge of accumulators of {invocation.name}", submit, needs, consumes=True)

        merges: list[Task] = []
        while len(tasks) > 1:
            tasks = [merge(tasks[first : first + _FAN_IN]) for first in range(0, len(tasks), _FAN_IN)]
            merges += tasks
        return merges

    def _read(self, task: Task, invocation: Invocation) -> Any:
        """Fetches the result of a task."""
        while True:
            try:
                assert task.result is not None
                return expand(ray.get(task.result, timeout=self.workers.limits.task_timeout))
            except (ray.exceptions.ObjectLostError, ray.exceptions.GetTimeoutError) as error:
                task.done, task.result = False, None
                task.tries += 1
                if task.tries > self.workers.limits.retries:
                    raise WorkerError(
                        f"{task.label}: its result was lost, or took too long to fetch, {task.tries} times"
                    ) from error
                self.workers.run([task], _check(invocation))

    def _shared(self, stage: Stage) -> _Programs:
        """The stage's programs; they leave the cluster with the computation that the stage is cut from."""
        if stage not in self._programs:
            self._programs[stage] = _Programs(_share(stage.run), _share(stage.merge))
        return self._programs[stage]


def _homes(names: Mapping[str, Any]) -> Sequence[StateReference]:
    """The references to the clients' states among the arguments; none where these are values."""
    columns = [value for value in names.values() if isinstance(value, ClientValues)]
    return next((c for c in columns if c and all(isinstance(v, StateReference) for v in c)), [])


def _slices(count: int, size: int, homes: Sequence[StateReference]) -> list[range]:
    """The slices of the clients; where states are kept by partition, none is of two of them.

    Without clients there is one slice, which is empty: aggregations have a result all the same.
    """
    if not homes:
        return [range(first, min(first + size, count)) for first in range(0, max(count, 1), size)]
    slices, first = [], 0
    for _, group in itertools.groupby(homes, lambda reference: reference.home.partition):
        end = first + len(list(group))
        slices += [range(start, min(start + size, end)) for start in range(first, end, size)]
        first = end
    return slices


def _returned(value: ClientValues) -> ClientValues:
    """What a computation returns of its clients: handles, or what they are called beside their states."""
    staying = [one.task.others[one.position] for one in value if isinstance(one, _Kept) and one.stays]
    if not staying:
        return ClientValues(one.handle() if isinstance(one, _Kept) else one for one in value)
    names = iter(ray.get(staying))
    return ClientValues(next(names) if isinstance(one, _Kept) else one for one in value)


def _share(value: Any) -> Shared:
    reference = ray.put(value)
    return Shared(reference.hex(), [reference])


def _at(argument: Any, path: tuple[int, ...]) -> Any:
    for index in path:
        argument = argument[index]
    return argument


def _label(clients: range, invocation: Invocation) -> str:
    which = (
        f"clients {clients.start} to {clients.stop - 1} of {invocation.num_clients}"
        if clients
        else "no client"
    )
    return f"{which} (counted from 0) of {invocation.name}"


def _in_order(slices: list[Task], merges: list[Task]) -> list[Task]:
    """Puts every merge behind the last of what it needs, so that accumulators do not pile up."""
    places = {task: float(position) for position, task in enumerate(slices)}
    for task in merges:
        places[task] = max(places[need] for need in task.needs)
    return sorted(places, key=lambda task: (places[task], task.consumes))


def _check(invocation: Invocation) -> Callable[[], None]:
    def check() -> None:
        with invocation.cancellation.call():  # raises, if the round was cancelled
            pass

    return check
