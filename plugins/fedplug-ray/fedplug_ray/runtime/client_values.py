"""Clients' values outside of this process: results that stay on workers, and arguments made there.

A list with one value per client may mix them with ordinary values.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import ray
import tensorflow_federated as tff

from fedplug.errors import WorkerError
from fedplug.stores.sharded.staging import Staged
from fedplug.tff.runtime.candidates import Candidate, Request
from fedplug.tff.runtime.inprocess.values import Clients, ingest, materialize
from fedplug.tff.runtime.tff_internals import transform_args
from fedplug_ray.runtime.building_blocks import varies
from fedplug_ray.runtime.messages import Given, OnWorker
from fedplug_ray.runtime.serialization import deserialize, serialize
from fedplug_ray.runtime.shelves import OnShelf, Place, Shelf, find
from fedplug_ray.runtime.stored_states import read_states
from fedplug_ray.runtime.tasks import Task
from fedplug_ray.shards.references import StateReference

__all__ = [
    "ClientHandle",
    "ClientValues",
    "hand_out_handles",
    "here",
    "holds_staged",
    "set_apart",
    "take_in",
    "to_arrays",
]


class ClientHandle:
    """One client's part of a result. The value stays in the cluster as long as the handle exists.

    As an argument of a later computation, the value goes from worker to worker, not through this process.

    Args:
        task: The task with the value in `others`; None if the client was left out.
        position: Index of the value in `task.others`.
        type_signature: The TFF type of the value.
        client: The client's position in the round.

    Attributes:
        type_signature: The TFF type of the value.
    """

    __slots__ = ("_client", "_held", "_position", "type_signature")

    # One object per client and no more: Python's garbage collector visits every object.
    def __init__(self, task: Task | None, position: int, type_signature: tff.Type, client: int) -> None:
        self._held: Task | Shelf | ray.ObjectRef[Any] | None = task
        self._position = position
        self.type_signature = type_signature
        self._client = client

    @property
    def place(self) -> Place | None:
        """The place of the value; None if there is no value."""
        held = self._keeper()
        return OnShelf(held, self._position) if isinstance(held, Shelf) else held

    def settle(self) -> None:
        """Drops the task. Until then, the task may run again on another worker."""
        self._held = self._keeper()

    @property
    def lost(self) -> bool:
        """Whether the value is missing because its round skipped the client (`on_lost="skip"`)."""
        return self._held is None

    def read(self) -> Any:
        """Fetches the value.

        Raises:
            WorkerError: The round skipped the client, or the machine with the value is gone.
        """
        place = self.place
        if place is None:
            raise WorkerError(
                f"client {self._client} (counted from 0) has no result: its round skipped it, because its "
                "workers died or took too long; check `lost` before reading"
            )
        (fetched,) = _fetch([place], f"client {self._client} (counted from 0)")
        value = deserialize(fetched, self.type_signature)
        return tff.types.type_to_py_container(materialize(value, self.type_signature, 1), self.type_signature)

    def _keeper(self) -> Shelf | ray.ObjectRef[Any] | None:
        if not isinstance(self._held, Task):
            return self._held
        others = self._held.others
        return others[0] if isinstance(others[0], Shelf) else others[self._position]

    def __repr__(self) -> str:
        return f"<{'lost ' if self.lost else ''}value of client {self._client}: {self.type_signature}>"


class ClientValues(list[Any]):
    """One `Given`, `OnWorker`, `StateReference` or `ClientHandle` per client, in client order.

    In a result whose clients had references as states, the values are `Staged`.

    Attributes:
        request: The caller's request if the values are candidates.
        stay: Whether the values stay on the machines that keep the clients' states.
    """

    request: Request | None = None
    stay: bool = False


def here(value: Any, type_spec: tff.Type) -> Any:
    """Returns a value whose clients' values have been fetched to, or made in, this process.

    Raises:
        WorkerError: A handle has no value, or the machine with the value is gone.
    """
    if isinstance(value, ClientValues):
        handles = [one for one in value if isinstance(one, ClientHandle)]
        places = [handle.place for handle in handles if handle.place is not None]
        fetched = iter(_fetch(places, f"one of {len(value)} clients"))
        return Clients(_here(one, type_spec.member, fetched) for one in value)
    if isinstance(type_spec, tff.StructType) and type(value) is tuple:
        kinds = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        return tuple(here(part, kind) for part, kind in zip(value, kinds, strict=True))
    return value


def _fetch(places: list[Place], whose: str) -> list[Any]:
    try:
        return list(ray.get(find(places)))
    except ray.exceptions.ObjectLostError as error:
        raise WorkerError(
            f"the value of {whose} is lost with the machine, or the coordinator, that held it; "
            "run the round again, and read values that must survive a machine from time to time, for "
            "instance into a store"
        ) from error


def _here(
    value: Given | OnWorker | StateReference | ClientHandle, kind: tff.Type, fetched: Iterator[Any]
) -> Any:
    if isinstance(value, Given):
        return deserialize(value.value, kind)
    if isinstance(value, OnWorker):
        return ingest(value.function(*value.arguments), kind)
    if isinstance(value, StateReference):
        return read_states([value], kind)[0]
    return value.read() if value.lost else deserialize(next(fetched), kind)


def holds_staged(value: Any) -> bool:
    """Returns whether a clients' result is on the machines that keep the clients' states."""
    if isinstance(value, ClientValues):
        return any(isinstance(one, Staged) for one in value)
    return type(value) is tuple and any(map(holds_staged, value))


class _Leaf:
    """Clients' values in the cluster as one leaf; TFF would search a list for structures."""

    __slots__ = ("values",)

    def __init__(self, values: list[Any]) -> None:
        self.values = values


def set_apart(argument: Any) -> Any:
    """Returns a computation's argument in which clients' values in the cluster are leaves."""
    if isinstance(argument, tff.structure.Struct):
        return tff.structure.Struct(
            (name, set_apart(part)) for name, part in tff.structure.iter_elements(argument)
        )
    return _Leaf(argument) if _is_elsewhere(argument) else argument


def to_arrays(value: Any) -> Any:
    """Applies TFF's `transform_args`, except to clients' values in the cluster; undoes `set_apart`."""
    if isinstance(value, _Leaf):
        return value.values
    if _is_elsewhere(value):
        return value
    if type(value) in (list, tuple) and any(map(_is_elsewhere, value)):
        return type(value)(map(to_arrays, value))
    if type(value) in (dict, collections.OrderedDict) and any(map(_is_elsewhere, value.values())):
        return type(value)((key, to_arrays(part)) for key, part in value.items())
    return transform_args(value)


def _is_elsewhere(value: Any) -> bool:
    kinds = ClientHandle, OnWorker, StateReference, Staged
    if type(value) is list:
        return bool(value) and all(isinstance(one, kinds) for one in value)
    return isinstance(value, _Leaf)


def hand_out_handles(value: Any, type_spec: tff.Type, num_clients: int) -> Any:
    """Returns a value like `inprocess.values.materialize`, but keeps handles."""
    if isinstance(value, ClientValues):
        return [
            one
            if isinstance(one, ClientHandle | Staged)
            else materialize(_here(one, type_spec.member, iter([])), type_spec.member, num_clients)
            for one in value
        ]
    if isinstance(type_spec, tff.StructType):
        named = tff.structure.iter_elements(type_spec)
        return tff.structure.Struct(
            (name, hand_out_handles(part, kind, num_clients))
            for part, (name, kind) in zip(value, named, strict=True)
        )
    return materialize(value, type_spec, num_clients)


def take_in(value: Any, type_spec: tff.Type) -> Any:
    """Converts a caller's argument like `inprocess.values.ingest`, but keeps clients' values serialized.

    Raises:
        TypeError: The value has another type. TFF may raise another error for it.
        WorkerError: A handle has no value.
    """
    if isinstance(type_spec, tff.StructType):
        parts = [part for _, part in tff.structure.iter_elements(tff.structure.from_container(value))]
        kinds = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        if len(parts) != len(kinds):
            return ingest(value, type_spec)  # raises
        return tuple(take_in(part, kind) for part, kind in zip(parts, kinds, strict=True))
    if varies(type_spec) and isinstance(value, list | tuple):
        request = value[0].request if value and isinstance(value[0], Candidate) else None
        members = value if request is None else [candidate.value for candidate in value]
        known: set[int] = set()
        values = ClientValues(_take_in_one(member, type_spec.member, known) for member in members)
        values.request = request
        return values
    return ingest(value, type_spec)


def _take_in_one(value: Any, kind: tff.Type, known: set[int]) -> Any:
    """Converts one client's value; `known` has the ids of types that were found to match."""
    if isinstance(value, ClientHandle):
        if value.lost:
            value.read()  # raises
        if id(value.type_signature) not in known:
            if not kind.is_assignable_from(value.type_signature):
                raise TypeError(f"the handle is of type {value.type_signature}, expected {kind}")
            known.add(id(value.type_signature))
        return value
    if isinstance(value, OnWorker | StateReference):
        return value
    return Given(serialize(ingest(value, kind), kind))
