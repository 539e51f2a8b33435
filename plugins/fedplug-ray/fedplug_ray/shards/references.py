"""References to clients' states on other machines. Workers read and stage states on the shards.

The driver creates references and receives `Staged` names. States travel only between worker and shard.
"""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray

from fedplug.stores.base import Tensors
from fedplug.stores.sharded.staging import Staged
from fedplug_ray.shards.actor import answer

__all__ = ["NAMESPACE", "Home", "StateReference", "fetch", "stage"]

NAMESPACE = "fedplug"


@dataclass(frozen=True, eq=False)
class Home:
    """The place of the states of a partition's clients.

    Attributes:
        process_id: The process.
        partition: The number of the partition.
        node: The id of the first shard's node, the best place to run the clients.
        version: The version of the first shard.
        actors: The names of the actors of all shards that keep the partition.
        places: The machine and folder of each shard, for error messages.
        initial: The reference to the state of new clients, in a list to hide it from Ray.
    """

    process_id: str
    partition: int
    node: str
    version: int
    actors: tuple[str, ...]
    places: tuple[str, ...]
    initial: list[ray.ObjectRef[Any]]


@dataclass(frozen=True)
class StateReference:
    """A reference to a client's state. ``known`` says whether the client has one already."""

    home: Home
    client_id: str
    known: bool


def fetch(references: Sequence[StateReference]) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Returns the states of clients. The arrays must not be written to.

    Raises:
        StoreError: A shard raised it. See `fedplug.stores.sharded.shard.Shard.read`.
    """
    underway = []
    for home, group in itertools.groupby(references, lambda reference: reference.home):
        client_ids = [reference.client_id for reference in group if reference.known]
        if client_ids:
            actor = _actor(home.actors[0])
            called = actor.call.remote("read", home.process_id, home.version, client_ids)
            underway.append((called, home.places[0]))
    found = {client_id: state for call in underway for client_id, state in answer(*call).items()}
    return [
        found[reference.client_id] if reference.known else ray.get(reference.home.initial[0])
        for reference in references
    ]


def stage(references: Sequence[StateReference], states: Iterable[Tensors]) -> list[Staged]:
    """Stages the next state of each client on all shards that keep it. Returns when all are staged.

    Raises:
        StoreError: A shard raised it. See `fedplug.stores.sharded.shard.Shard.stage`.
    """
    names, underway = [], []
    for reference, state in zip(references, states, strict=True):
        home, client_id, name = reference.home, reference.client_id, secrets.token_hex(8)
        given: Any = ray.put(dict(state)) if len(home.actors) > 1 else dict(state)
        for actor, place in zip(home.actors, home.places, strict=True):
            called = _actor(actor).call.remote("stage", home.process_id, name, client_id, given)
            underway.append((called, place))
        names.append(Staged(name))
    for call in underway:
        answer(*call)
    return names


@functools.lru_cache(maxsize=4096)
def _actor(name: str) -> Any:
    return ray.get_actor(name, NAMESPACE)
