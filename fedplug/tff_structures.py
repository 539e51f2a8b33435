"""Values of TFF types as flat lists of tensors and back, in TFF's own order.

`tf.nest` sorts mappings by key and TFF does not, so neither may be mixed with the other. TFF's conversions
ask of every container whether it has the methods of a named tuple, once the larger part of what a round of a
small model cost in Python; the containers that most values come in need no such question.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow_federated as tff

from fedplug.errors import ConfigError

__all__ = ["contain", "flatten", "members", "paths", "tensor_types", "unflatten"]


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


def tensor_types(type_spec: Any) -> list[Any]:
    """The tensor types of a tensor or (nested) structure type, in order.

    Raises:
        ConfigError: There is something else in it, for instance a sequence.
    """
    return [member for _, member in _leaves(type_spec, "")]


def paths(type_spec: Any) -> list[str]:
    """A name for each tensor of `tensor_types`: its field names or positions, joined by ``/``."""
    return [path for path, _ in _leaves(type_spec, "")]


def flatten(value: Any, type_spec: Any) -> list[Any]:
    """The tensors (or arrays) of a value of this type, in the order of `tensor_types`."""
    if isinstance(type_spec, tff.TensorType):
        return [value]
    return [
        leaf
        for member, (_, member_type) in zip(
            members(value), tff.structure.iter_elements(type_spec), strict=True
        )
        for leaf in flatten(member, member_type)
    ]


def unflatten(leaves: Sequence[Any], type_spec: Any) -> Any:
    """The inverse of `flatten`, with the Python containers the type remembers."""
    remaining = iter(leaves)

    def build(member_type: Any) -> Any:
        if isinstance(member_type, tff.TensorType):
            return next(remaining)
        return contain([build(inner) for _, inner in tff.structure.iter_elements(member_type)], member_type)

    return build(type_spec)


def members(value: Any) -> Sequence[Any]:
    """The members of a container in order, as `tff.structure.from_container` has them.

    Raises:
        TypeError: It is no container; the text is TFF's.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        return value  # type: ignore[no-any-return]
    if kind is collections.OrderedDict or kind is dict:
        return list(value.values())
    return [member for _, member in tff.structure.iter_elements(tff.structure.from_container(value))]


def contain(members: Sequence[Any], type_spec: Any) -> Any:
    """Puts members into the container their type remembers, as `tff.types.type_to_py_container` does.

    Args:
        members: In order; in their containers.
        type_spec: A structure type.

    Raises:
        ValueError: The type has members with and without names; the text is TFF's.
    """
    names = [name for name, _ in tff.structure.iter_elements(type_spec)]
    container = type_spec.python_container
    if container in _OF_UNNAMED and not any(names):
        return (container or tuple)(members)
    if container in _OF_NAMED and all(names) and names:
        return (container or collections.OrderedDict)(zip(names, members, strict=True))
    struct = tff.structure.Struct(list(zip(names, members, strict=True)))
    return tff.types.type_to_py_container(struct, type_spec)


_OF_UNNAMED = (None, tuple, list)
_OF_NAMED = (None, dict, collections.OrderedDict)
