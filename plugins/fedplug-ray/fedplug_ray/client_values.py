"""Clients' arguments that workers make.

A list with one value per client may mix them with ordinary values.
"""

from __future__ import annotations

import collections

import tensorflow_federated as tff

from fedplug.tff.runtime.inprocess.values import Clients, ingest, materialize
from fedplug.tff.runtime.tff_internals import computation_pb2, transform_args
from fedplug_ray.messages import Late, OnWorker, Value

__all__ = ["hand_out", "here", "set_apart", "take_in", "to_arrays"]


def here(value: Value) -> Value:
    """Returns a client's value, whose parts are made in this process."""
    if type(value) is tuple:
        return tuple(map(here, value))
    if not isinstance(value, Late):
        return value
    kind = tff.types.deserialize_type(computation_pb2.Type.FromString(value.kind))
    return ingest(value.source.function(*value.source.arguments), kind)


class _Leaf:
    """Values that workers make as one leaf; TFF would search a list for structures."""

    __slots__ = ("values",)

    def __init__(self, values: list[Value]) -> None:
        self.values = values


def set_apart(argument: Value) -> Value:
    """Returns a computation's argument in which values that workers make are leaves."""
    if isinstance(argument, tff.structure.Struct):
        return tff.structure.Struct(
            (name, set_apart(part)) for name, part in tff.structure.iter_elements(argument)
        )
    return _Leaf(argument) if _is_elsewhere(argument) else argument


def to_arrays(value: Value) -> Value:
    """Applies TFF's `transform_args`, except to values that workers make. Undoes `set_apart`."""
    if isinstance(value, _Leaf):
        return value.values
    if _is_elsewhere(value):
        return value
    if type(value) in (list, tuple) and any(map(_is_elsewhere, value)):
        return type(value)(map(to_arrays, value))
    if type(value) in (dict, collections.OrderedDict) and any(map(_is_elsewhere, value.values())):
        return type(value)((key, to_arrays(part)) for key, part in value.items())
    return transform_args(value)


def _is_elsewhere(value: Value) -> bool:
    if type(value) is list:
        return bool(value) and all(isinstance(one, OnWorker) for one in value)
    return isinstance(value, _Leaf)


def take_in(value: Value, type_spec: tff.Type) -> Value:
    """Converts a caller's argument like `inprocess.values.ingest`, without values that workers make.

    Raises:
        TypeError: The value has another type. TFF may raise another error for it.
    """
    if isinstance(type_spec, tff.StructType):
        parts = [part for _, part in tff.structure.iter_elements(tff.structure.from_container(value))]
        kinds = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        if len(parts) != len(kinds):
            return ingest(value, type_spec)  # raises
        return tuple(take_in(part, kind) for part, kind in zip(parts, kinds, strict=True))
    is_by_client = isinstance(type_spec, tff.FederatedType) and not type_spec.all_equal
    if not (is_by_client and isinstance(value, list | tuple)):
        return ingest(value, type_spec)
    return Clients(_take_in_one(member, type_spec.member) for member in value)


def _take_in_one(value: Value, kind: tff.Type) -> Value:
    if isinstance(value, OnWorker):
        return Late(value, tff.types.serialize_type(kind).SerializeToString(deterministic=True))
    return ingest(value, kind)


def hand_out(value: Value, type_spec: tff.Type, num_clients: int) -> Value:
    """Converts a result like `inprocess.values.materialize`, and makes values that no worker made."""
    if isinstance(value, Clients):
        return materialize(Clients(map(here, value)), type_spec, num_clients)
    if isinstance(type_spec, tff.StructType):
        named = tff.structure.iter_elements(type_spec)
        return tff.structure.Struct(
            (name, hand_out(part, kind, num_clients)) for part, (name, kind) in zip(value, named, strict=True)
        )
    return materialize(value, type_spec, num_clients)
