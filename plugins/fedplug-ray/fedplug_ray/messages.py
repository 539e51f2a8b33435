"""Messages to workers: the work of one client, and serialized values.

Serialized, a tensor is an array, a struct a tuple, and a sequence the graph of its data set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import ray
import tensorflow as tf

from fedplug.tff.runtime.graphs.datasets_with_state import DatasetWithState, deserialized, serialized
from fedplug.tff.runtime.inprocess.values import Clients

__all__ = ["ClientTask", "Shared", "Value", "columns_of", "deserialize", "serialize"]


Value: TypeAlias = Any
"""A value of an executor: a tensor, a data set, a tuple of values, or the values of all clients."""


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
    """

    work: Shared
    given: Shared
    own: list[Value]
    computation: str
    client: int
    of: int


@dataclass(frozen=True)
class _Sequence:
    graph: bytes


@dataclass(frozen=True)
class _Gap:
    """The place of a client's own value."""


def columns_of(value: Value) -> Iterator[Clients]:
    """Yields the parts of a value that differ by client, in the order of the gaps."""
    if isinstance(value, Clients):
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from columns_of(part)


def serialize(value: Value) -> Value:
    """Serializes a value; a part that differs by client becomes a gap.

    Raises:
        TypeError: It holds something that only this process has, such as a function.
    """
    if isinstance(value, Clients):
        return _Gap()
    if type(value) is tuple:
        return tuple(map(serialize, value))
    if isinstance(value, DatasetWithState) or (tf.is_tensor(value) and value.dtype == tf.variant):
        return _Sequence(serialized(value))
    if not tf.is_tensor(value):
        raise TypeError(f"a {type(value).__name__} cannot be sent to a worker")
    return value.numpy()


def deserialize(value: Value, own: Iterator[Value] | None = None) -> Value:
    """Undoes `serialize`. ``own`` has the values for the gaps."""
    if isinstance(value, _Gap):
        assert own is not None
        return next(own)
    if type(value) is tuple:
        return tuple([deserialize(part, own) for part in value])
    if isinstance(value, _Sequence):
        return deserialized(value.graph)
    is_text = isinstance(value, bytes) or value.dtype == object
    return tf.convert_to_tensor(value, tf.string if is_text else None)
