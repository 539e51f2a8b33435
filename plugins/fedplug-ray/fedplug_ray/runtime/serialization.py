"""Serialized values: a tensor is an array, a struct a tuple, and a sequence the graph of its data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from fedplug.stores.sharded.staging import Staged
from fedplug.tff.runtime.graphs.datasets_with_state import DatasetWithState, deserialized, serialized
from fedplug.tff.runtime.inprocess.values import Clients
from fedplug_ray.runtime.messages import Late

__all__ = ["columns_of", "deserialize", "serialize"]


@dataclass(frozen=True)
class _Sequence:
    graph: bytes


@dataclass(frozen=True)
class _Gap:
    """The place of a client's own value."""


def columns_of(value: Any) -> Iterator[Clients]:
    """Yields the parts of a value that differ by client, in the order of the gaps."""
    if isinstance(value, Clients):
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from columns_of(part)


def serialize(value: Any) -> Any:
    """Serializes a value; a part that differs by client becomes a gap.

    Raises:
        TypeError: It holds something that only this process has, such as a function.
    """
    if isinstance(value, Clients):
        return _Gap()
    if isinstance(value, Late | Staged):
        return value
    if type(value) is tuple:
        return tuple(map(serialize, value))
    if isinstance(value, DatasetWithState) or (tf.is_tensor(value) and value.dtype == tf.variant):
        return _Sequence(serialized(value))
    if not tf.is_tensor(value):
        raise TypeError(f"a {type(value).__name__} cannot be sent to a worker")
    return value.numpy()


def deserialize(value: Any, own: Iterator[Any] | None = None) -> Any:
    """Undoes `serialize`. ``own`` has the values for the gaps."""
    if isinstance(value, _Gap):
        assert own is not None
        return next(own)
    if isinstance(value, Late | Staged):
        return value
    if type(value) is tuple:
        return tuple([deserialize(part, own) for part in value])
    if isinstance(value, _Sequence):
        return deserialized(value.graph)
    is_text = isinstance(value, bytes) or value.dtype == object
    return tf.convert_to_tensor(value, tf.string if is_text else None)
