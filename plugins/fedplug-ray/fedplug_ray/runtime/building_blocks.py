"""Queries on TFF's building blocks, and the placed parts of a computation's argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow_federated as tff

__all__ = ["Block", "CannotCutError", "Leaf", "leaves_of", "looks_up", "uri_of", "varies", "with_leaves"]

Block: TypeAlias = tff.framework.ComputationBuildingBlock


class CannotCutError(Exception):
    """The computation does not have the form that can be cut, so it runs as a whole."""


@dataclass(frozen=True)
class Leaf:
    """A placed part of the computation's argument: its name, its path in the argument, and its type."""

    name: str
    path: tuple[int, ...]
    type_signature: tff.Type


def leaves_of(type_spec: tff.Type, path: tuple[int, ...] = ()) -> Iterator[Leaf]:
    """Yields the leaves of an argument of this type.

    Raises:
        CannotCutError: The argument contains a function.
    """
    if isinstance(type_spec, tff.FunctionType):
        raise CannotCutError
    if isinstance(type_spec, tff.StructType):
        for index, (_, element) in enumerate(tff.structure.iter_elements(type_spec)):
            yield from leaves_of(element, (*path, index))
    else:
        yield Leaf(_leaf_name(path), path, type_spec)


def _leaf_name(path: tuple[int, ...]) -> str:
    return "/".join(["fedplug_argument", *map(str, path)])


def with_leaves(block: Block, parameter: str, type_spec: tff.Type) -> Block:
    """Returns `block`, with references to leaves in place of selections from the parameter."""

    def leaf(part: tff.Type, path: tuple[int, ...]) -> Block:
        if not isinstance(part, tff.StructType):
            return tff.framework.Reference(_leaf_name(path), part)
        named = enumerate(tff.structure.iter_elements(part))
        return tff.framework.Struct([(name, leaf(element, (*path, i))) for i, (name, element) in named])

    def selected(part: Block) -> tuple[tff.Type, tuple[int, ...]] | None:
        if isinstance(part, tff.framework.Reference) and part.name == parameter:
            return type_spec, ()
        source = selected(part.source) if isinstance(part, tff.framework.Selection) else None
        if source is None or not isinstance(source[0], tff.StructType):
            return None
        return source[0][part.as_index()], (*source[1], part.as_index())

    def replace(part: Block) -> Block:
        if found := selected(part):
            return leaf(*found)
        if isinstance(part, tff.framework.Lambda):
            if part.parameter_name == parameter:
                return part
            return tff.framework.Lambda(part.parameter_name, part.parameter_type, replace(part.result))
        if isinstance(part, tff.framework.Block):
            if any(name == parameter for name, _ in part.locals):
                raise CannotCutError
            return tff.framework.Block([(name, replace(v)) for name, v in part.locals], replace(part.result))
        if isinstance(part, tff.framework.Call):
            argument = None if part.argument is None else replace(part.argument)
            return tff.framework.Call(replace(part.function), argument)
        if isinstance(part, tff.framework.Struct):
            return tff.framework.Struct([(n, replace(v)) for n, v in tff.structure.iter_elements(part)])
        if isinstance(part, tff.framework.Selection):
            return tff.framework.Selection(replace(part.source), index=part.as_index())
        return part

    return replace(block)


def looks_up(block: Block | None) -> set[str]:
    """Returns the free names of a building block."""
    if isinstance(block, tff.framework.Reference):
        return {block.name}
    if isinstance(block, tff.framework.Lambda):
        return looks_up(block.result) - {block.parameter_name}
    if isinstance(block, tff.framework.Block):
        names = looks_up(block.result)
        for name, value in reversed(block.locals):
            names = (names - {name}) | looks_up(value)
        return names
    if isinstance(block, tff.framework.Call):
        return looks_up(block.function) | looks_up(block.argument)
    if isinstance(block, tff.framework.Selection):
        return looks_up(block.source)
    if isinstance(block, tff.framework.Struct):
        return set[str]().union(*(looks_up(part) for _, part in tff.structure.iter_elements(block)))
    return set()


def varies(type_spec: tff.Type) -> bool:
    """Returns whether values of this type differ from client to client."""
    return (
        isinstance(type_spec, tff.FederatedType)
        and type_spec.placement is tff.CLIENTS
        and not type_spec.all_equal
    )


def uri_of(value: Block) -> str:
    """Returns the name of the intrinsic that `value` calls, or "" if it calls none."""
    called = value.function if isinstance(value, tff.framework.Call) else None
    return str(called.uri) if isinstance(called, tff.framework.Intrinsic) else ""
