"""Runs a staged computation: slices of its clients on workers, and the other steps in this process."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import ray

from fedplug.errors import WorkerError
from fedplug.tff.runtime.candidates import Request
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug_ray.runtime.client_values import ClientValues
from fedplug_ray.runtime.dispatch import Workers
from fedplug_ray.runtime.first_of import FirstOf
from fedplug_ray.runtime.messages import Shared
from fedplug_ray.runtime.serialization import deserialize, expand, serialize
from fedplug_ray.runtime.shelves import let_go
from fedplug_ray.runtime.slices import (
    FAN_IN,
    StageOfRound,
    clients_of_slices,
    in_order,
    merge_tasks,
    slices_of_partitions,
)
from fedplug_ray.runtime.stages import DriverStep, Stage, Staged
from fedplug_ray.runtime.tasks import Task
from fedplug_ray.runtime.units import Unit, block_unit, kept, returned, slice_unit
from fedplug_ray.shards.references import StateReference

__all__ = ["Cluster"]

# (slices in a stage, slices in a block): a stage with more slices uses blocks of this size. Large blocks are
# cheap to hand out; small blocks balance the coordinators' loads. A block is a subtree of the tree of merges.
_BLOCKS = ((4096, FAN_IN**2), (256, FAN_IN))


class _Programs(NamedTuple):
    """A stage's `run` and `merge` in the cluster."""

    run: Shared
    merge: Shared


class _ClientsLostError(Exception):
    """Slices, given by number, were lost after some of their values had been used."""

    def __init__(self, slices: set[int]) -> None:
        super().__init__(slices)
        self.slices = slices


@dataclass(eq=False)
class _Round:
    """The state of one run of a computation, whose steps run one after the other.

    Attributes:
        invocation: The call of the computation.
        values: Values by name; every step adds its own.
        slices: The clients of the slices that take part, by slice number.
        request: The caller's request if the round may leave out clients.
        homes: References to the clients' states if a store on the machines keeps them.
        tasks: Tasks of the previous stage, by slice number.
    """

    invocation: Invocation
    values: dict[str, Any]
    slices: dict[int, range]
    request: Request | None
    homes: Sequence[StateReference]
    tasks: dict[int, Task] = field(default_factory=dict)

    def check(self) -> None:
        """Raises an error if the round was cancelled."""
        self.invocation.cancellation.check()

    def leave_out(self, lost: set[int]) -> set[int]:
        """Removes slices from the round; returns their clients.

        Raises:
            WorkerError: No slice is left.
            _ClientsLostError: The slices took part in an earlier stage.
        """
        if len(lost) == len(self.slices):
            raise WorkerError(
                f"all clients of {self.invocation.name} were lost: their workers died or took too long"
            )
        if lost and self.tasks:
            raise _ClientsLostError(lost)
        return {client for number in lost for client in self.slices.pop(number)}

    def results(self) -> dict[str, Any]:
        """Returns the values; clients' values are those of the clients that took part."""
        took_part = None
        if self.request is not None:
            took_part = self.request.took_part = [client for part in self.slices.values() for client in part]
        found = dict(self.values)
        for name, value in found.items():
            if isinstance(value, ClientValues):
                found[name] = returned(value, took_part)
        return found


class Cluster:
    """Runs staged computations on workers.

    Args:
        workers: The workers.
        clients_per_slice: Number of clients in a slice.
        skip_lost: Whether a round continues without clients whose workers died too often.
        coordinated: Whether the workers are coordinators with workers of their own.
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
        """Runs a computation; values that differ from client to client are `ClientValues`.

        Raises:
            ComputationError: A part of the computation failed.
            WorkerError: Workers died or took too long more often than `retries` allows.
        """
        let_go(self._gone.popleft() for _ in range(len(self._gone)))
        lost: set[int] = set()
        while True:
            try:
                return self._run(staged, argument, invocation, lost)
            except _ClientsLostError as late:  # run again as if they had not taken part
                lost |= late.slices

    def _run(self, staged: Staged, argument: Any, invocation: Invocation, lost: set[int]) -> Any:
        current = self._begin(staged, argument, invocation, lost)
        later = {name for step in staged.steps if isinstance(step, Stage) for name, _ in step.clients}
        for step in staged.steps:
            if isinstance(step, DriverStep):
                current.values[step.name] = step.plan.run(current.values, invocation)
            else:
                stays = tuple(bool(current.homes) and name not in later for name, _ in step.keeps)
                self._stage(current, step, stays)
        return staged.result.run(current.results(), invocation)

    def _begin(self, staged: Staged, argument: Any, invocation: Invocation, lost: set[int]) -> _Round:
        """Returns the round before its first step, without the lost slices."""
        values = {leaf.name: _at(argument, leaf.path) for leaf in staged.leaves}
        request, homes = _request(values.values()), _homes(values.values())
        count, size = invocation.num_clients, self._clients_per_slice
        if homes:
            slices = list(slices_of_partitions(homes, size))
        else:
            slices = clients_of_slices(count, count if request is None else request.needed, size)
        taking_part = {number: clients for number, clients in enumerate(slices) if number not in lost}
        return _Round(invocation, values, taking_part, request, homes)

    def _stage(self, current: _Round, stage: Stage, stays: tuple[bool, ...]) -> None:
        """Runs a stage of a round, and adds its results to the round's values."""
        of_round = self._of_round(current, stage, stays)
        units = self._units(current, of_round, [current.values[name] for name, _ in stage.clients])
        merges = merge_tasks(of_round, [unit.task for unit in units])
        self._do(current, units, merges)
        if stage.keeps:
            self._do_again_what_died(units, current)
        gone = current.leave_out(set[int]().union(*(unit.lost for unit in units)))
        for position, (name, kind) in enumerate(stage.keeps):
            count = current.invocation.num_clients
            current.values[name] = kept(units, position, kind.member, count, gone, stays[position])
        if stage.accumulators:
            total = self._read(merges[-1] if merges else units[-1].task, current)
            for (name, kind), value in zip(stage.accumulators, total, strict=True):
                current.values[name] = deserialize(value, kind)
        current.tasks = {number: unit.task for unit in units for number in unit.slices}

    def _of_round(self, current: _Round, stage: Stage, stays: tuple[bool, ...]) -> StageOfRound:
        programs = self._shared(stage)
        inputs = tuple(serialize(current.values[name], kind) for name, kind in stage.inputs)
        return StageOfRound(
            run=programs.run,
            merge=programs.merge,
            inputs=_share(inputs),
            stays=stays,
            adds_up=bool(stage.accumulators),
            computation=current.invocation.name,
            clients=current.invocation.num_clients,
            may_be_lost=self._skip_lost or current.request is not None,
        )

    def _units(self, current: _Round, stage: StageOfRound, columns: list[ClientValues]) -> list[Unit]:
        """Returns the slices, or blocks of slices, to hand out."""
        numbers = list(current.slices)
        # Candidates' slices are handed out one by one, because a block is taken or left out as a whole.
        in_blocks = self.coordinated and current.request is None
        size = next((size for least, size in _BLOCKS if in_blocks and len(numbers) > least), 1)
        units = []
        for first in range(0, len(numbers), size):
            slices = {number: current.slices[number] for number in numbers[first : first + size]}
            needs = list({current.tasks[number]: None for number in slices if number in current.tasks})
            if self.coordinated:
                units.append(block_unit(stage, slices, columns, needs, self._gone.append))
            else:
                ((number, clients),) = slices.items()
                units.append(slice_unit(stage, number, clients, columns, needs, current.homes))
        return units

    def _do(self, current: _Round, units: list[Unit], merges: list[Task]) -> None:
        """Runs a stage on the workers; the first stage takes as many candidates as are needed."""
        tasks, request, invocation = [unit.task for unit in units], current.request, current.invocation
        if request is None or current.tasks:
            self.workers.run(in_order(tasks, merges), current.check)
            return
        first_of = FirstOf(tasks, [len(unit.clients) for unit in units], request.needed, request.first)
        self.workers.run(in_order(tasks, merges), current.check, first_of.ended)
        if first_of.taken < request.needed:
            raise WorkerError(
                f"{invocation.name} needs {request.needed} clients, and only {first_of.taken} of "
                f"{invocation.num_clients} are done; the workers of the others died or took too long"
            )

    def _do_again_what_died(self, units: list[Unit], current: _Round) -> None:
        """Repeats the tasks of coordinators that have died, because they held the clients' values."""
        while again := [unit.task for unit in units if not unit.task.lost and self._died_with(unit.task)]:
            for task in again:
                task.done = False
            self.workers.run(again, current.check)

    def _died_with(self, task: Task) -> bool:
        return self.coordinated and not self.workers.has(task.others[0].actor)

    def _read(self, task: Task, current: _Round) -> Any:
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
                self.workers.run([task], current.check)

    def _shared(self, stage: Stage) -> _Programs:
        """Returns the stage's programs, which leave the cluster together with the stage's computation."""
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
    """Returns the arguments that are references to clients' states; empty if states are values."""
    columns = [value for value in values if isinstance(value, ClientValues)]
    return next((c for c in columns if c and all(isinstance(v, StateReference) for v in c)), [])
