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
from typing import Any

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

_KEPT = 4096
"""Number of cached types; a training has a few hundred."""


def _leaves(type_spec: Any, path: str) -> Iterator[tuple[str, Any]]:
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
def _named_leaves(type_spec: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(_leaves(type_spec, ""))


def tensor_types(type_spec: Any) -> list[Any]:
    """Returns the tensor types of a tensor or (nested) structure type, in order.

    Raises:
        ConfigError: The type contains something else, for instance a sequence.
    """
    return [member for _, member in _named_leaves(type_spec)]


def paths(type_spec: Any) -> list[str]:
    """Returns a name for each tensor of `tensor_types`: its field names or positions, joined by ``/``."""
    return [path for path, _ in _named_leaves(type_spec)]


@functools.lru_cache(_KEPT)
def member_types(type_spec: Any) -> tuple[Any, ...]:
    """Returns the types of the members of a structure type, in order."""
    return tuple(member for _, member in tff.structure.iter_elements(type_spec))


def flatten(value: Any, type_spec: Any) -> list[Any]:
    """Returns the tensors (or arrays) of a value of this type, in the order of `tensor_types`."""
    leaves: list[Any] = []
    _collector(type_spec)(value, leaves)
    return leaves


@functools.lru_cache(_KEPT)
def _collector(type_spec: Any) -> Callable[[Any, list[Any]], None]:
    """Returns a function that appends the tensors of a value of the type to a list."""
    if isinstance(type_spec, tff.TensorType):
        return lambda value, leaves: leaves.append(value)
    parts = [_collector(member) for member in member_types(type_spec)]

    def collect(value: Any, leaves: list[Any]) -> None:
        for part, member in zip(parts, members(value), strict=True):
            part(member, leaves)

    return collect


def unflatten(leaves: Sequence[Any], type_spec: Any) -> Any:
    """Inverts `flatten`. The result has the Python containers that the type remembers."""
    return _builder(type_spec)(iter(leaves))


@functools.lru_cache(_KEPT)
def _builder(type_spec: Any) -> Callable[[Iterator[Any]], Any]:
    """Returns a function that builds a value of the type from its tensors."""
    if isinstance(type_spec, tff.TensorType):
        return next
    parts = [_builder(member) for member in member_types(type_spec)]
    make = _maker(type_spec)
    return lambda leaves: make([part(leaves) for part in parts])


def members(value: Any) -> Sequence[Any]:
    """Returns the members of a container in order, as `tff.structure.from_container` does.

    Raises:
        TypeError: The value is not a container. The text is TFF's.
    """
    kind: Any = type(value)
    if kind is tuple or kind is list:
        return value  # type: ignore[no-any-return]
    if kind is collections.OrderedDict or kind is dict:
        return list(value.values())
    if _takes_keywords(kind):
        return [getattr(value, name) for name in _keywords(kind)]
    return [member for _, member in tff.structure.iter_elements(tff.structure.from_container(value))]


def is_common(value: Any) -> bool:
    """Whether the value is a container whose members are read here, without TFF."""
    kind: Any = type(value)
    return kind in _COMMON or _takes_keywords(kind)


_COMMON = frozenset({tuple, list, dict, collections.OrderedDict})


def contain(members: Sequence[Any], type_spec: Any) -> Any:
    """Puts members into the container that their type remembers, as `tff.types.type_to_py_container` does.

    Args:
        members: The members in order, themselves in their containers.
        type_spec: A structure type.

    Raises:
        ValueError: The type has both named and unnamed members. The text is TFF's.
    """
    return _maker(type_spec)(members)


@functools.lru_cache(_KEPT)
def _maker(type_spec: Any) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that builds the container of a structure type from its members."""
    names = [name for name, _ in tff.structure.iter_elements(type_spec)]
    container = type_spec.python_container
    if container in _OF_UNNAMED and not any(names):
        return container or tuple
    if container in _OF_NAMED and all(names):
        return lambda members: (container or collections.OrderedDict)(zip(names, members, strict=True))
    if _takes_keywords(container) and all(names):
        return lambda members: container(**dict(zip(names, members, strict=True)))

    def by_tff(members: Sequence[Any]) -> Any:
        return tff.types.type_to_py_container(
            tff.structure.Struct(list(zip(names, members, strict=True))), type_spec
        )

    return by_tff


_OF_UNNAMED = (None, tuple, list)
_OF_NAMED = (None, dict, collections.OrderedDict)


@functools.lru_cache(_KEPT)
def _takes_keywords(container: Any) -> bool:
    """Whether the type is a named tuple or an attrs class, as most of TFF's own containers are."""
    return container is not None and (
        (issubclass(container, tuple) and hasattr(container, "_fields"))
        or "__attrs_attrs__" in vars(container)
    )


@functools.lru_cache(_KEPT)
def _keywords(container: Any) -> list[str]:
    """The names of the container's members, in order."""
    if issubclass(container, tuple):
        return list(container._fields)
    return [attribute.name for attribute in container.__attrs_attrs__]


def element_type(spec: Any) -> Any:
    """Returns the type of a dataset's elements, as `tff.types.tensorflow_to_type` does.

    Args:
        spec: The dataset's ``element_spec``.
    """
    return _element_type(_Spec(_hashable(spec), spec))


@dataclass(frozen=True)
class _Spec:
    """A hashable element spec. Mappings with different orders have different keys."""

    key: Hashable
    spec: Any = field(compare=False)


@functools.lru_cache(_KEPT)
def _element_type(found: _Spec) -> Any:
    return tff.types.tensorflow_to_type(found.spec)


def _hashable(spec: Any) -> Hashable:
    if isinstance(spec, dict):
        return type(spec), tuple((name, _hashable(part)) for name, part in spec.items())
    if isinstance(spec, tuple | list):
        return type(spec), tuple(map(_hashable, spec))
    return spec  # type: ignore[no-any-return]
