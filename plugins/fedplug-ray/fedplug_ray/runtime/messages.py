"""Messages to workers: the work of one client, and arguments that a worker makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray

from fedplug_ray.shards.references import StateReference

__all__ = ["ClientTask", "Late", "OnWorker", "Shared", "on_worker"]


@dataclass(frozen=True)
class OnWorker:
    """A client's argument that a worker makes with `function(*arguments)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def on_worker(function: Callable[..., Any], *arguments: Any) -> OnWorker:
    """Returns a placeholder for one client's argument, which the worker makes: no data is sent.

    Args:
        function: A function that returns the value, for instance a `tf.data.Dataset`. Ray pickles it. If a
            worker dies, another one calls the function again, which must then return an equal value.
        *arguments: The function's arguments, for instance a client id.
    """
    return OnWorker(function, arguments)


@dataclass(frozen=True)
class Late:
    """A client's value that the worker makes or reads, and its serialized TFF type."""

    source: OnWorker | StateReference
    kind: bytes


@dataclass(frozen=True)
class Shared:
    """A value that many tasks use: its name, and its reference in a list, so that Ray does not fetch it."""

    name: str
    reference: list[ray.ObjectRef[Any]]


@dataclass(frozen=True)
class ClientTask:
    """The work of one client in a pass over the clients.

    Attributes:
        work: The building blocks of the work.
        given: The values that all clients use, by name, with gaps for the client's own values.
        own: The client's values, in the order of the gaps.
        computation: Name of the computation, for errors.
        client: Position of the client in the round.
        of: Number of clients in the round.
        home: The reference to the client's state if its results stay with it.
    """

    work: Shared
    given: Shared
    own: list[Any]
    computation: str
    client: int
    of: int
    home: StateReference | None
