"""What a stage of a round hands out, a slice or a block of slices, and the clients' values that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import tensorflow_federated as tff

from fedplug_ray.runtime.client_values import ClientHandle, ClientValues
from fedplug_ray.runtime.columns import pack
from fedplug_ray.runtime.coordinator import Block
from fedplug_ray.runtime.messages import Given, OnWorker
from fedplug_ray.runtime.shelves import Place, Shelf, find
from fedplug_ray.runtime.slices import StageOfRound, label, slice_task
from fedplug_ray.runtime.tasks import Task
from fedplug_ray.shards.references import StateReference

__all__ = ["Unit", "block_unit", "kept", "returned", "slice_unit"]


@dataclass(eq=False)
class Unit:
    """Slices (their numbers) that are handed out together, their clients, and the task that does them."""

    slices: list[int]
    clients: Sequence[int]
    task: Task

    @property
    def lost(self) -> set[int]:
        """The slices that were given up."""
        return set(self.slices) if self.task.lost else {self.slices[index] for index in self.task.told or ()}


def slice_unit(
    stage: StageOfRound,
    number: int,
    clients: range,
    columns: Sequence[ClientValues],
    needs: Sequence[Task],
    homes: Sequence[StateReference],
) -> Unit:
    """Returns one slice, for a worker.

    Args:
        stage: The stage.
        number: Of the slice.
        clients: Its clients.
        columns: For every client value of the stage, one value per client of the round.
        needs: Tasks that some of the values are results of.
        homes: Where the states of the round's clients are, if a store on the machines keeps them.
    """
    theirs = tuple(homes[clients.start : clients.stop])
    task = slice_task(stage, clients, _values(columns, clients), _reference, needs, theirs)
    return Unit([number], clients, task)


def block_unit(
    stage: StageOfRound,
    slices: Mapping[int, range],
    columns: Sequence[ClientValues],
    needs: Sequence[Task],
    let_go: Callable[[tuple[Any, int]], None],
) -> Unit:
    """Returns a block of slices, for a coordinator.

    Args:
        stage: The stage.
        slices: The clients of each slice, by its number.
        columns: For every client value of the stage, one value per client of the round.
        needs: Tasks that some of the values are results of.
        let_go: Called with the coordinator and a number, when nobody needs the values any more that it keeps
            under this number.
    """
    clients = [client for part in slices.values() for client in part]
    values = _values(columns, clients)

    def submit(actor: Any, number: int) -> Sequence[Any]:
        columns = [pack([_placed(value) for value in column]) for column in values]
        block = Block(stage, list(slices.values()), columns)
        references = actor.run.options(num_returns=2).remote(number, block)
        return [*references, Shelf(actor, number, let_go)]

    task = Task(label(stage, clients), submit, needs, size=len(slices), may_be_lost=stage.may_be_lost)
    return Unit(list(slices), clients, task)


def kept(
    units: Sequence[Unit], position: int, type_signature: tff.Type, count: int, gone: set[int], stays: bool
) -> ClientValues:
    """What the stage's client value at a position is for every client; those that were left out are lost.

    Args:
        units: Of the stage, done.
        position: Of the value, among those that are kept.
        type_signature: Of one client's.
        count: How many clients the round has.
        gone: Those of lost slices.
        stays: Whether the values are left beside the clients' states.
    """
    column: list[Any] = [None] * count
    for unit in units:
        first = position * len(unit.clients)
        for place, client in enumerate(unit.clients, first):
            column[client] = ClientHandle(unit.task, place, type_signature, client)
    # Also those of slices that had been left out before.
    for client in gone.union(client for client, value in enumerate(column) if value is None):
        column[client] = ClientHandle(None, 0, type_signature, client)
    values = ClientValues(column)
    values.stay = stays
    return values


def returned(column: ClientValues, clients: Sequence[int] | None) -> ClientValues:
    """What a computation returns of its clients: handles, or what they are called beside their states.

    Args:
        column: One value per client of the round.
        clients: The positions of those that took part; None: all did.
    """
    values = column if clients is None else ClientValues(column[client] for client in clients)
    handles = [one for one in values if isinstance(one, ClientHandle)]
    if column.stay:
        names = iter(ray.get(find([_place_of(handle) for handle in handles if not handle.lost])))
        return ClientValues(one if one.lost else next(names) for one in handles)
    for handle in handles:
        handle.settle()
    return values


def _values(columns: Sequence[ClientValues], clients: Sequence[int]) -> list[list[Any]]:
    return [[column[client] for client in clients] for column in columns]


def _placed(value: Given | OnWorker | ClientHandle) -> Given | OnWorker | Place:
    return value if isinstance(value, Given | OnWorker) else _place_of(value)


def _reference(value: ClientHandle) -> ray.ObjectRef[Any]:
    (reference,) = find([_place_of(value)])
    return reference


def _place_of(value: ClientHandle) -> Place:
    place = value.place
    assert place is not None  # what is lost is refused, or takes part no more
    return place
