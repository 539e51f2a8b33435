"""Converts values of TFF types to flat lists of tensors and back, in TFF's own order.

`tf.nest` sorts mappings by key and TFF does not, so the two must not be mixed. TFF's conversions inspect
every container for the methods of a named tuple, which once dominated the time of a round of a small model.
This module inspects each type once and caches the result: TFF has one object for equal types.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tensorflow_federated as tff

from fedplug.errors import ConfigError

__all__ = [
    "contain",
    "element_type",
    "flatten",
    "is_common",
    "member_types",
    "members",
    "paths",
    "tensor_types",
    "unflatten",
]

Structure: TypeAlias = Any
"""A value of a TFF type: a tensor, an array, or (nested) containers of them. TFF has no types for it."""

_KEPT = 4096
"""Number of cached types; a training has a few hundred."""


def _leaves(type_spec: tff.Type, path: str) -> Iterator[tuple[str, tff.TensorType]]:
    if isinstance(type_spec, tff.TensorType):
        yield path, type_spec
    elif isinstance(type_spec, tff.StructType):
        for position, (name, member) in enumerate(tff.structure.iter_elements(type_spec)):
            yield from _leaves(member, f"{path}/{name or position}" if path else str(name or position))
    else:
        raise ConfigError(
            f"expected tensors or structures of tensors, found {type_spec} at {path or 'the top'}"
        )


@functools.lru_cache(_KEPT)
def _named_leaves(type_spec: tff.Type) -> tuple[tuple[str, tff.TensorType], ...]:
    return tuple(_leaves(type_spec, ""))


def tensor_types(type_spec: tff.Type) -> list[tff.TensorType]:
    """Returns the tensor types of a tensor or (nested) structure type, in order.

    Raises:
        ConfigError: The type contains something else, for instance a sequence.
    """
    return [member for _, member in _named_leaves(type_spec)]


def paths(type_spec: tff.Type) -> list[str]:
    """Returns a name for each tensor of `tensor_types`: its field names or positions, joined by ``/``."""
    return [path for path, _ in _named_leaves(type_spec)]


@functools.lru_cache(_KEPT)
def member_types(type_spec: tff.Type) -> tuple[tff.Type, ...]:
    """Returns the types of the members of a structure type, in order."""
    return tuple(member for _, member in tff.structure.iter_elements(type_spec))


def flatten(value: Structure, type_spec: tff.Type) -> list[Structure]:
    """Returns the tensors (or arrays) of a value of this type, in the order of `tensor_types`."""
    leaves: list[Structure] = []
    _collector(type_spec)(value, leaves)
    return leaves


@functools.lru_cache(_KEPT)
def _collector(type_spec: tff.Type) -> Callable[[Structure, list[Structure]], None]:
    """Returns a function that appends the tensors of a value of the type to a list."""
    if isinstance(type_spec, tff.TensorType):
        return lambda value, leaves: leaves.append(value)
    parts = [_collector(member) for member in member_types(type_spec)]

    def collect(value: Structure, leaves: list[Structure]) -> None:
        for part, member in zip(parts, members(value), strict=True):
            part(member, leaves)

    return collect


def unflatten(leaves: Sequence[Structure], type_spec: tff.Type) -> Structure:
    """Inverts `flatten`. The result has the Python containers that the type remembers."""
    return _builder(type_spec)(iter(leaves))


@functools.lru_cache(_KEPT)
def _builder(type_spec: tff.Type) -> Callable[[Iterator[Structure]], Structure]:
    """Returns a function that builds a value of the type from its tensors."""
    if isinstance(type_spec, tff.TensorType):
        return next
    parts = [_builder(member) for member in member_types(type_spec)]
    make = _maker(type_spec)
    return lambda leaves: make([part(leaves) for part in parts])


def members(value: Structure) -> Sequence[Structure]:
    """Returns the members of a container in order, as `tff.structure.from_container` does.

    Raises:
        TypeError: The value is not a container. The text is TFF's.
    """
    kind: Structure = type(value)
    if kind is tuple or kind is list:
        found: Sequence[Structure] = value
        return found
    if kind is collections.OrderedDict or kind is dict:
        return list(value.values())
    if _takes_keywords(kind):
        return [getattr(value, name) for name in _keywords(kind)]
    return [member for _, member in tff.structure.iter_elements(tff.structure.from_container(value))]


def is_common(value: object) -> bool:
    """Whether the value is a container whose members are read here, without TFF."""
    kind: Structure = type(value)
    return kind in _COMMON or _takes_keywords(kind)


_COMMON = frozenset({tuple, list, dict, collections.OrderedDict})


def contain(members: Sequence[Structure], type_spec: tff.Type) -> Structure:
    """Puts members into the container that their type remembers, as `tff.types.type_to_py_container` does.

    Args:
        members: The members in order, themselves in their containers.
        type_spec: A structure type.

    Raises:
        ValueError: The type has both named and unnamed members. The text is TFF's.
    """
    return _maker(type_spec)(members)


@functools.lru_cache(_KEPT)
def _maker(type_spec: tff.Type) -> Callable[[Sequence[Structure]], Structure]:
    """Returns a function that builds the container of a structure type from its members."""
    names = [name for name, _ in tff.structure.iter_elements(type_spec)]
    container = type_spec.python_container
    if container in _OF_UNNAMED and not any(names):
        return container or tuple
    if container in _OF_NAMED and all(names):
        return lambda members: (container or collections.OrderedDict)(zip(names, members, strict=True))
    if _takes_keywords(container) and all(names):
        return lambda members: container(**dict(zip(names, members, strict=True)))

    def by_tff(members: Sequence[Structure]) -> Structure:
        return tff.types.type_to_py_container(
            tff.structure.Struct(list(zip(names, members, strict=True))), type_spec
        )

    return by_tff


_OF_UNNAMED = (None, tuple, list)
_OF_NAMED = (None, dict, collections.OrderedDict)


@functools.lru_cache(_KEPT)
def _takes_keywords(container: Structure) -> bool:
    """Whether the type is a named tuple or an attrs class, as most of TFF's own containers are."""
    return container is not None and (
        (issubclass(container, tuple) and hasattr(container, "_fields"))
        or "__attrs_attrs__" in vars(container)
    )


@functools.lru_cache(_KEPT)
def _keywords(container: Structure) -> list[str]:
    """The names of the container's members, in order."""
    if issubclass(container, tuple):
        return list(container._fields)
    return [attribute.name for attribute in container.__attrs_attrs__]


def element_type(spec: Structure) -> tff.Type:
    """Returns the type of a dataset's elements, as `tff.types.tensorflow_to_type` does.

    Args:
        spec: The dataset's ``element_spec``.
    """
    return _element_type(_Spec(_hashable(spec), spec))


@dataclass(frozen=True)
class _Spec:
    """A hashable element spec. Mappings with different orders have different keys."""

    key: Hashable
    spec: Structure = field(compare=False)


@functools.lru_cache(_KEPT)
def _element_type(found: _Spec) -> tff.Type:
    return tff.types.tensorflow_to_type(found.spec)


def _hashable(spec: Structure) -> Hashable:
    if isinstance(spec, dict):
        return type(spec), tuple((name, _hashable(part)) for name, part in spec.items())
    if isinstance(spec, tuple | list):
        return type(spec), tuple(map(_hashable, spec))
    leaf: Hashable = spec
    return leaf
