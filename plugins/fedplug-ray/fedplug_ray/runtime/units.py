"""The units that a stage hands out, slices or blocks of slices, and the clients' values that it keeps."""

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
    """Slices that are handed out together (by number), their clients, and their task."""

    slices: list[int]
    clients: Sequence[int]
    task: Task

    @property
    def lost(self) -> set[int]:
        """The numbers of the lost slices."""
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
        number: Number of the slice.
        clients: Positions of its clients in the round.
        columns: One value per client of the round, for each client value of the stage.
        needs: Tasks whose results are among the values.
        homes: References to the states of the round's clients if a store on the machines keeps them.
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
        columns: One value per client of the round, for each client value of the stage.
        needs: Tasks whose results are among the values.
        let_go: A function that is called with the coordinator and a task number when the coordinator may drop
            the values of this task.
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
    """Returns handles to one client value of a stage; clients that were left out have lost ones.

    Args:
        units: The units of the stage, which are done.
        position: Position of the value among the kept ones.
        type_signature: The type of one client's value.
        count: Number of clients in the round.
        gone: Clients of lost slices.
        stays: Whether the values stay on the machines of the clients' states.
    """
    column: list[Any] = [None] * count
    for unit in units:
        first = position * len(unit.clients)
        for place, client in enumerate(unit.clients, first):
            column[client] = ClientHandle(unit.task, place, type_signature, client)
    # Clients of slices that an earlier stage left out have no value either.
    for client in gone.union(client for client, value in enumerate(column) if value is None):
        column[client] = ClientHandle(None, 0, type_signature, client)
    values = ClientValues(column)
    values.stay = stays
    return values


def returned(column: ClientValues, clients: Sequence[int] | None) -> ClientValues:
    """Returns a computation's result per client: handles, or the `Staged` names of stored values.

    Args:
        column: One value per client of the round.
        clients: Positions of the clients that took part; None: all clients.
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
    assert place is not None  # lost values are refused or left out earlier
    return place
