"""The slices of a round, their tasks, and the tree that merges their accumulators.

Slices and tree determine the bits of a result. They depend only on the number of clients, or on the
partitions of the store that keeps the clients' states. The driver or a coordinator may run any subtree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from fedplug_ray.runtime.messages import Fetched, Given, OnWorker, Shared, Slice
from fedplug_ray.runtime.tasks import Task
from fedplug_ray.shards.references import StateReference

__all__ = [
    "FAN_IN",
    "StageOfRound",
    "clients_of_slices",
    "in_order",
    "label",
    "merge_tasks",
    "slice_task",
    "slices_of_partitions",
]

FAN_IN = 8
"""Number of neighbouring accumulators that one merge combines; workers merge, so the driver gets one."""


def clients_of_slices(count: int, needed: int, size: int) -> list[range]:
    """Returns the clients of every slice. No slice has both needed clients and clients of the reserve.

    A round that takes exactly the needed clients thus has the same slices as a round without a reserve.

    Args:
        count: Number of clients in the round.
        needed: Number of clients that it needs; they come first.
        size: Maximum number of clients in a slice.
    """
    # A round without clients has one empty slice, so that aggregations have a result.
    firsts = [*range(0, max(needed, 1), size), *range(needed, count, size)]
    return [range(first, min(first + size, needed if first < needed else count)) for first in firsts]


def slices_of_partitions(homes: Sequence[StateReference], size: int) -> Iterator[range]:
    """Yields the clients of every slice; no slice has clients of two partitions of the store."""
    first = 0
    for _, group in itertools.groupby(homes, lambda reference: reference.home.partition):
        end = first + len(list(group))
        yield from (range(start, min(start + size, end)) for start in range(first, end, size))
        first = end


@dataclass(frozen=True)
class StageOfRound:
    """The values that the tasks of a stage share in one round.

    Attributes:
        run: `Stage.run`, shared in the cluster.
        merge: `Stage.merge`, shared in the cluster.
        inputs: The values of `Stage.inputs`, shared in the cluster.
        stays: Whether each value of `Stage.keeps` stays on the machine of the client's state.
        adds_up: Whether there are accumulators.
        computation: Name of the computation, for errors.
        clients: Number of clients in the round.
        may_be_lost: Whether the round continues without slices whose workers died too often.
    """

    run: Shared
    merge: Shared
    inputs: Shared
    stays: tuple[bool, ...]
    adds_up: bool
    computation: str
    clients: int
    may_be_lost: bool


def slice_task(
    stage: StageOfRound,
    clients: range,
    columns: Sequence[Sequence[Any]],
    reference: Callable[[Any], ray.ObjectRef[Any]],
    needs: Sequence[Task] = (),
    homes: tuple[StateReference, ...] = (),
) -> Task:
    """Returns the task of a slice.

    Args:
        stage: The stage.
        clients: Positions of the slice's clients in the round.
        columns: One value per client of the slice, for each client value of the stage.
        reference: A function that returns the reference to a value that the task does not contain.
        needs: Tasks whose results are among the values.
        homes: References to the clients' states if a store on the machines keeps them.
    """

    def submit(actor: Any, number: int) -> Sequence[ray.ObjectRef[Any]]:
        references: list[ray.ObjectRef[Any]] = []

        def serialized(value: Any) -> Given | OnWorker | StateReference | Fetched:
            if isinstance(value, Given | OnWorker | StateReference):
                return value
            references.append(reference(value))
            return Fetched(len(references) - 1)

        values = tuple([serialized(value) for value in column] for column in columns)
        part = Slice(
            stage.computation, clients.start, len(clients), stage.clients, values, homes, stage.stays
        )
        run = actor.run.options(num_returns=2 + len(stage.stays) * len(clients))
        return list(run.remote(number, stage.run, stage.inputs, part, *references))

    node = homes[0].home.node if homes else ""
    return Task(label(stage, clients), submit, needs, node=node, may_be_lost=stage.may_be_lost)


def label(stage: StageOfRound, clients: Sequence[int]) -> str:
    """Returns the description of a round's clients for an error."""
    which = f"clients {clients[0]} to {clients[-1]} of {stage.clients}" if clients else "no client"
    return f"{which} (counted from 0) of {stage.computation}"


def merge_tasks(stage: StageOfRound, tasks: list[Task]) -> list[Task]:
    """Returns the tasks that merge accumulators; the last one returns the total."""
    if not stage.adds_up:
        return []

    def merge(needs: list[Task]) -> Task:
        def submit(actor: Any, number: int) -> Sequence[ray.ObjectRef[Any]]:
            totals = [need.result for need in needs if not need.lost]
            return list(actor.merge.options(num_returns=2).remote(number, stage.merge, *totals))

        return Task(f"a merge of accumulators of {stage.computation}", submit, needs, consumes=True)

    merges: list[Task] = []
    while len(tasks) > 1:
        tasks = [merge(tasks[first : first + FAN_IN]) for first in range(0, len(tasks), FAN_IN)]
        merges += tasks
    return merges


def in_order(slices: list[Task], merges: list[Task]) -> list[Task]:
    """Puts every merge directly after the last task it needs, so that few accumulators exist at a time."""
    places = {task: float(position) for position, task in enumerate(slices)}
    for task in merges:
        places[task] = max(places[need] for need in task.needs)
    return sorted(places, key=lambda task: (places[task], task.consumes))
