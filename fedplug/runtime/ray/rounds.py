"""Runs a staged computation: slices of a fixed number of clients on workers, the rest here.

Which clients make a slice, and in which order accumulators are merged, depends on the number of clients only,
or on the partitions of the store that keeps their states; so results do not depend on the workers.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import ray
import tensorflow_federated as tff

from fedplug.errors import WorkerError
from fedplug.runtime.candidates import Request
from fedplug.runtime.inprocess.invocation import Invocation
from fedplug.runtime.ray.client_values import ClientHandle, ClientValues, Given, OnWorker
from fedplug.runtime.ray.coordinator import Block
from fedplug.runtime.ray.dispatch import Workers
from fedplug.runtime.ray.first_of import FirstOf
from fedplug.runtime.ray.serialization import deserialize, expand, serialize
from fedplug.runtime.ray.shelves import OnShelf, Place, Shelf, find, let_go
from fedplug.runtime.ray.slices import FAN_IN, StageOfRound, in_order, label, merge_tasks, slice_task
from fedplug.runtime.ray.stages import DriverStep, Stage, Staged
from fedplug.runtime.ray.tasks import Task
from fedplug.runtime.ray.worker import Shared
from fedplug.stores.ray.references import StateReference

__all__ = ["Cluster"]

# Coordinators are given blocks of so many slices where a stage has more than so many: subtrees of the tree of
# merges. Large ones are cheap to hand out, small ones give each coordinator as much to do.
_BLOCKS = ((4096, FAN_IN**2), (256, FAN_IN))


@dataclass(eq=False, slots=True)
class _Kept:
    """A client's value that a task of this round returned, the one at `position`.

    Where it stays beside the client's state, that is its name there.
    """

    task: Task
    position: int
    type_signature: tff.Type
    client: int
    stays: bool

    @property
    def place(self) -> Place:
        others = self.task.others
        shelf = others[0]
        return OnShelf(shelf, self.position) if isinstance(shelf, Shelf) else others[self.position]

    def handle(self) -> ClientHandle:
        return ClientHandle(self.place, self.type_signature, self.client)


@dataclass(eq=False)
class _Unit:
    """Slices (their numbers) that are handed out together, their clients, and the task that does them."""

    slices: list[int]
    clients: list[int]
    task: Task

    @property
    def lost(self) -> set[int]:
        """The slices that were given up."""
        return set(self.slices) if self.task.lost else {self.slices[index] for index in self.task.told or ()}


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
        coordinated: Whether the workers are coordinators, with workers of their own.
    """

    def __init__(
        self, workers: Workers, clients_per_slice: int, skip_lost: bool, coordinated: bool = False
    ) -> None:
        self.workers = workers
        self._clients_per_slice = clients_per_slice
        self._skip_lost = skip_lost
        self.coordinated = coordinated
        self._gone: collections.deque[tuple[Any, int]] = collections.deque()
        self._programs: WeakKeyDictionary[Stage, _Programs] = WeakKeyDictionary()

    def run(self, staged: Staged, argument: Any, invocation: Invocation) -> Any:
        """Runs a computation; values that differ from client to client come as `ClientValues`.

        Raises:
            ComputationError: Something in it failed.
            WorkerError: Workers died, or took too long, more often than is allowed.
        """
        let_go(self._gone.popleft() for _ in range(len(self._gone)))
        lost: set[int] = set()
        while True:
            try:
                return self._run(staged, argument, invocation, lost)
            except _ClientsLostError as late:  # as if they had not taken part
                lost |= late.slices

    def _run(self, staged: Staged, argument: Any, invocation: Invocation, lost: set[int]) -> Any:
        names = {leaf.name: _at(argument, leaf.path) for leaf in staged.leaves}
        request = _request(names.values())
        homes = _homes(names.values())
        everyone = self._slices(invocation.num_clients, request, homes)
        slices = {number: clients for number, clients in enumerate(everyone) if number not in lost}
        later = {name for step in staged.steps if isinstance(step, Stage) for name, _ in step.clients}
        before: dict[int, Task] = {}
        for step in staged.steps:
            if isinstance(step, DriverStep):
                names[step.name] = step.plan.run(names, invocation)
            else:
                stays = tuple(bool(homes) and name not in later for name, _ in step.keeps)
                before = self._stage(step, names, slices, before, invocation, request, homes, stays)
        took_part = None
        if request is not None:
            took_part = request.took_part = [client for part in slices.values() for client in part]
        for name, value in names.items():
            if isinstance(value, ClientValues):
                column = value if took_part is None else [value[client] for client in took_part]
                names[name] = _returned(column)
        return staged.result.run(names, invocation)

    def _slices(self, count: int, request: Request | None, homes: Sequence[StateReference]) -> list[range]:
        """Returns the clients of every slice; those that are needed have slices of their own.

        So a round that takes just these has the slices of a round that asks no others. Where states are kept
        by partition, no slice is of two of them.
        """
        if homes:
            return list(_slices_of_partitions(homes, self._clients_per_slice))
        size, needed = self._clients_per_slice, count if request is None else request.needed
        # Without clients there is one slice, which is empty: aggregations have a result all the same.
        firsts = [*range(0, max(needed, 1), size), *range(needed, count, size)]
        return [range(first, min(first + size, needed if first < needed else count)) for first in firsts]

    def _stage(
        self,
        stage: Stage,
        names: dict[str, Any],
        slices: dict[int, range],
        before: dict[int, Task],
        invocation: Invocation,
        request: Request | None,
        homes: Sequence[StateReference],
        stays: tuple[bool, ...],
    ) -> dict[int, Task]:
        """Runs a stage, adds what it gives to `names`; returns the task of every slice."""
        programs = self._shared(stage)
        of_round = StageOfRound(
            run=programs.run,
            merge=programs.merge,
            inputs=_share(tuple(serialize(names[name], kind) for name, kind in stage.inputs)),
            stays=stays,
            adds_up=bool(stage.accumulators),
            computation=invocation.name,
            clients=invocation.num_clients,
            may_be_lost=self._skip_lost or request is not None,
        )
        # A block is taken or left out as one, so candidates' slices are handed out one by one.
        in_blocks = self.coordinated and request is None
        size = next((size for least, size in _BLOCKS if in_blocks and len(slices) > least), 1)
        columns = [names[name] for name, _ in stage.clients]
        units = self._units(of_round, columns, slices, before, size, homes)
        tasks = [unit.task for unit in units]
        merges = merge_tasks(of_round, tasks)
        first_of = None
        if request is not None and not before:
            counts = [len(unit.clients) for unit in units]
            first_of = FirstOf(tasks, counts, request.needed, request.first)
        choose = None if first_of is None else first_of.ended
        self.workers.run(in_order(tasks, merges), _check(invocation), choose)
        if request is not None and first_of is not None and first_of.taken < request.needed:
            raise WorkerError(
                f"{invocation.name} needs {request.needed} clients, and only {first_of.taken} of "
                f"{invocation.num_clients} are done; the workers of the others died or took too long"
            )
        if stage.keeps:
            self._do_again_what_died(units, invocation)

        lost = set[int]().union(*(unit.lost for unit in units))
        if len(lost) == len(slices):
            raise WorkerError(
                f"all clients of {invocation.name} were lost: their workers died or took too long"
            )
        if lost and before:
            raise _ClientsLostError(lost)
        gone = {client for number in lost for client in slices[number]}
        for number in lost:
            del slices[number]
        for position, (name, kind) in enumerate(stage.keeps):
            column: list[Any] = [None] * invocation.num_clients
            for unit in units:
                first = position * len(unit.clients)
                for place, client in enumerate(unit.clients, first):
                    column[client] = _Kept(unit.task, place, kind.member, client, stays[position])
            # Also those of slices that had been left out before.
            for client in gone.union(i for i, kept in enumerate(column) if kept is None):
                column[client] = ClientHandle(None, kind.member, client)
            names[name] = ClientValues(column)
        if stage.accumulators:
            total = self._read((merges or tasks)[-1], invocation)
            for (name, kind), value in zip(stage.accumulators, total, strict=True):
                names[name] = deserialize(value, kind)
        return {number: unit.task for unit in units for number in unit.slices}

    def _units(
        self,
        stage: StageOfRound,
        columns: list[ClientValues],
        slices: dict[int, range],
        before: dict[int, Task],
        size: int,
        homes: Sequence[StateReference],
    ) -> list[_Unit]:
        """Returns what is handed out: `size` slices at a time."""
        numbers, units = list(slices), []
        for first in range(0, len(numbers), size):
            together = numbers[first : first + size]
            ranges = [slices[number] for number in together]
            clients = [client for clients in ranges for client in clients]
            values = [[column[client] for client in clients] for column in columns]
            needs = list({before[number]: None for number in together if number in before})
            if self.coordinated:
                task = self._block_task(stage, ranges, values, needs)
            else:
                (only,) = ranges
                theirs = tuple(homes[only.start : only.stop])
                task = slice_task(stage, only, values, _reference, needs, theirs)
            units.append(_Unit(together, clients, task))
        return units

    def _block_task(
        self, stage: StageOfRound, slices: list[range], columns: list[list[Any]], needs: list[Task]
    ) -> Task:
        def placed(value: Given | OnWorker | ClientHandle | _Kept) -> Given | OnWorker | Place | None:
            return value if isinstance(value, Given | OnWorker) else value.place

        def submit(actor: Any, number: int) -> Sequence[Any]:
            block = Block(stage, slices, [[placed(value) for value in column] for column in columns])
            references = actor.run.options(num_returns=2).remote(number, block)
            return [*references, Shelf(actor, number, self._gone.append)]

        clients = [client for clients in slices for client in clients]
        return Task(label(stage, clients), submit, needs, size=len(slices), may_be_lost=stage.may_be_lost)

    def _do_again_what_died(self, units: list[_Unit], invocation: Invocation) -> None:
        """Does again what coordinators did that died since, as they held the clients' values."""
        while again := [unit.task for unit in units if not unit.task.lost and self._died_with(unit.task)]:
            for task in again:
                task.done = False
            self.workers.run(again, _check(invocation))

    def _died_with(self, task: Task) -> bool:
        return self.coordinated and not self.workers.has(task.others[0].actor)

    def _read(self, task: Task, invocation: Invocation) -> Any:
        """Fetches the result of a task."""
        while True:
            try:
                assert task.result is not None
                total = ray.get(task.result, timeout=self.workers.limits.task_timeout)
                if self.coordinated:
                    (total,) = ray.get(total, timeout=self.workers.limits.task_timeout)
                return expand(total)
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


def _share(value: Any) -> Shared:
    reference = ray.put(value)
    return Shared(reference.hex(), [reference])


def _at(argument: Any, path: tuple[int, ...]) -> Any:
    for index in path:
        argument = argument[index]
    return argument


def _request(values: Iterable[Any]) -> Request | None:
    given = [value.request for value in values if isinstance(value, ClientValues) and value.request]
    return given[0] if given else None


def _homes(values: Iterable[Any]) -> Sequence[StateReference]:
    """The references to the clients' states among the arguments; none where these are values."""
    columns = [value for value in values if isinstance(value, ClientValues)]
    return next((c for c in columns if c and all(isinstance(v, StateReference) for v in c)), [])


def _slices_of_partitions(homes: Sequence[StateReference], size: int) -> Iterator[range]:
    first = 0
    for _, group in itertools.groupby(homes, lambda reference: reference.home.partition):
        end = first + len(list(group))
        yield from (range(start, min(start + size, end)) for start in range(first, end, size))
        first = end


def _returned(column: Sequence[Any]) -> ClientValues:
    """What a computation returns of its clients: handles, or what they are called beside their states."""
    staying = [one.task.others[one.position] for one in column if isinstance(one, _Kept) and one.stays]
    if not staying:
        return ClientValues(one.handle() if isinstance(one, _Kept) else one for one in column)
    names = iter(ray.get(staying))
    return ClientValues(next(names) if isinstance(one, _Kept) else one for one in column)


def _reference(value: ClientHandle | _Kept) -> ray.ObjectRef[Any]:
    assert value.place is not None  # what is lost is refused, or takes part no more
    (reference,) = find([value.place])
    return reference


def _check(invocation: Invocation) -> Callable[[], None]:
    def check() -> None:
        with invocation.cancellation.call():  # raises, if the round was cancelled
            pass

    return check
