"""What travels to the workers of a cluster: clients' arguments, slices of them, what many tasks share.

Must not import TensorFlow: coordinators pass these on without looking into them.
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
    """A client's argument that a worker makes by calling `function(*arguments)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Given:
    """A client's argument in serialized form."""

    value: Any


def on_worker(function: Callable[..., Any], *arguments: Any) -> OnWorker:
    """Stands for one client's argument, made on the worker that uses it: data is loaded there, not sent.

    Args:
        function: Returns the value, for instance a `tf.data.Dataset`; it is called again when a worker died
            and the client is done by another, and must return the same then. It is pickled by Ray.
        *arguments: Its arguments, for instance a client id.
    """
    return OnWorker(function, arguments)


@dataclass(frozen=True)
class Shared:
    """A value that many tasks use: its name, and a list with the reference, which Ray does not follow."""

    name: str
    reference: list[ray.ObjectRef[Any]]


@dataclass(frozen=True)
class Fetched:
    """A client's value among those that Ray fetched for the task."""

    position: int


@dataclass(frozen=True)
class Slice:
    """Some clients of a round.

    Attributes:
        computation: The name of the computation, for errors.
        first: The position of the first client in the round.
        count: How many clients these are.
        of: How many clients the round has.
        values: For every client value of the stage, one `Given`, `OnWorker`, `StateReference` or `Fetched`
            per client.
        homes: The references to the clients' states, where a store on the machines keeps these; else empty.
        stays: Of every value of `Stage.keeps`, whether it is left beside the clients' states.
    """

    computation: str
    first: int
    count: int
    of: int
    values: tuple[list[Given | OnWorker | StateReference | Fetched], ...]
    homes: tuple[StateReference, ...]
    stays: tuple[bool, ...]
