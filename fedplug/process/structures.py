"""Values of TFF types as flat lists of tensors and back, in TFF's own order.

`tf.nest` sorts mappings by key and TFF does not, so neither may be mixed with the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow_federated as tff

from fedplug.errors import ConfigError

__all__ = ["flatten", "paths", "tensor_types", "unflatten"]


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
    members = [member for _, member in tff.structure.iter_elements(tff.structure.from_container(value))]
    return [
        leaf
        for member, (_, member_type) in zip(members, tff.structure.iter_elements(type_spec), strict=True)
        for leaf in flatten(member, member_type)
    ]


def unflatten(leaves: Sequence[Any], type_spec: Any) -> Any:
    """The inverse of `flatten`, with the Python containers the type remembers."""
    remaining = iter(leaves)

    def build(member_type: Any) -> Any:
        if isinstance(member_type, tff.TensorType):
            return next(remaining)
        return tff.structure.Struct(
            [(name, build(inner)) for name, inner in tff.structure.iter_elements(member_type)]
        )

    value = build(type_spec)
    return (
        value if isinstance(type_spec, tff.TensorType) else tff.types.type_to_py_container(value, type_spec)
    )
