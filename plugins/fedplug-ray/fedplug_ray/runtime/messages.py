"""Messages to workers: clients' arguments, slices of clients, and values that tasks share.

This module does not import TensorFlow, because coordinators forward these messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray

from fedplug_ray.shards.references import StateReference

__all__ = ["Fetched", "Given", "OnWorker", "Shared", "Slice", "on_worker"]


@dataclass(frozen=True)
class OnWorker:
    """A client's argument that a worker makes with `function(*arguments)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Given:
    """A client's argument in serialized form."""

    value: Any


def on_worker(function: Callable[..., Any], *arguments: Any) -> OnWorker:
    """Returns a placeholder for one client's argument, which the worker makes: no data is sent.

    Args:
        function: A function that returns the value, for instance a `tf.data.Dataset`. Ray pickles it. If a
            worker dies, another one calls the function again, which must then return an equal value.
        *arguments: The function's arguments, for instance a client id.
    """
    return OnWorker(function, arguments)


@dataclass(frozen=True)
class Shared:
    """A value that many tasks use: its name, and its reference in a list, so that Ray does not fetch it."""

    name: str
    reference: list[ray.ObjectRef[Any]]


@dataclass(frozen=True)
class Fetched:
    """A client's value, by its position among the values that Ray fetched for the task."""

    position: int


@dataclass(frozen=True)
class Slice:
    """Neighbouring clients of a round.

    Attributes:
        computation: Name of the computation, for errors.
        first: Position of the first client in the round.
        count: Number of clients in the slice.
        of: Number of clients in the round.
        values: The `Given`, `OnWorker`, `StateReference` or `Fetched` of each client, for each client value
            of the stage.
        homes: References to the clients' states if a store on the machines keeps them; else empty.
        stays: Whether each value of `Stage.keeps` stays on the machine of the client's state.
    """

    computation: str
    first: int
    count: int
    of: int
    values: tuple[list[Given | OnWorker | StateReference | Fetched], ...]
    homes: tuple[StateReference, ...]
    stays: tuple[bool, ...]
