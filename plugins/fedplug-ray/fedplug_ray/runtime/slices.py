"""The slices of a round's clients, the task of each, and the tree in which accumulators are merged.

Slices and tree are part of what makes the bits of a result. They depend on the number of clients only, or on
the partitions of the store that keeps their states. Whoever hands out these tasks, the driver or a
coordinator, may hand out any subtree.
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

# Each node of the tree takes so many neighbours. Merges are done by workers: the driver gets one accumulator,
# however many slices there are.
FAN_IN = 8


def clients_of_slices(count: int, needed: int, size: int) -> list[range]:
    """Returns the clients of every slice; those that are needed have slices of their own.

    So a round that takes just these has the slices of a round that asks no others.

    Args:
        count: How many clients the round asks.
        needed: How many of them, the first, it needs.
        size: How many clients a slice has at most.
    """
    # Without clients there is one slice, which is empty: aggregations have a result all the same.
    firsts = [*range(0, max(needed, 1), size), *range(needed, count, size)]
    return [range(first, min(first + size, needed if first < needed else count)) for first in firsts]


def slices_of_partitions(homes: Sequence[StateReference], size: int) -> Iterator[range]:
    """The clients of every slice where a store keeps states by partition: no slice is of two of them."""
    first = 0
    for _, group in itertools.groupby(homes, lambda reference: reference.home.partition):
        end = first + len(list(group))
        yield from (range(start, min(start + size, end)) for start in range(first, end, size))
        first = end


@dataclass(frozen=True)
class StageOfRound:
    """What the tasks of a stage have in common in one round.

    Attributes:
        run: `Stage.run`, shared in the cluster.
        merge: `Stage.merge`, likewise.
        inputs: The values of `Stage.inputs`, likewise.
        stays: Of every value of `Stage.keeps`, whether it is left beside the clients' states.
        adds_up: Whether there are accumulators.
        computation: Its name, for errors.
        clients: How many clients the round has.
        may_be_lost: Whether the round goes on without slices whose workers died too often.
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
        clients: The positions in the round of its clients.
        columns: For every client value of the stage, one value per client of the slice.
        reference: Where to find values that are not in the task themselves.
        needs: Tasks that these are the results of.
        homes: Where its clients' states are, if a store on the machines keeps them.
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
    """What an error calls some clients of a round."""
    which = f"clients {clients[0]} to {clients[-1]} of {stage.clients}" if clients else "no client"
    return f"{which} (counted from 0) of {stage.computation}"


def merge_tasks(stage: StageOfRound, tasks: list[Task]) -> list[Task]:
    """Returns the tasks that merge the accumulators of others, the last one into one."""
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
    """Puts every merge behind the last of what it needs, so that accumulators do not pile up."""
    places = {task: float(position) for position, task in enumerate(slices)}
    for task in merges:
        places[task] = max(places[need] for need in task.needs)
    return sorted(places, key=lambda task: (places[task], task.consumes))
