"""Splits aggregations into two steps: one accumulator per slice, and the result of all accumulators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug_ray.runtime.building_blocks import Block, CannotCutError, looks_up, uri_of

__all__ = ["PartialAggregation", "call", "partial_aggregation_of"]

# The bounds of secure sums hold for each client, so partial sums are merged by addition.
_SUMS = {"federated_sum", "federated_secure_sum", "federated_secure_sum_bitwidth"}


@dataclass(frozen=True)
class PartialAggregation:
    """An aggregation in two steps.

    Attributes:
        partial: The accumulator of a slice's clients, placed at the server.
        merge: A function that returns the call that merges two accumulators.
        total: The name by which `finish` refers to the merged accumulator.
        finish: The result.
    """

    partial: Block
    merge: Callable[[Block, Block], Block]
    total: str
    finish: Block


def partial_aggregation_of(name: str, value: Block) -> PartialAggregation | None:
    """Returns the two steps of an aggregation with the result `name`; None if `value` is not an aggregation.

    Raises:
        CannotCutError: The arguments are not a struct, or `merge` has free names.
    """
    uri, total = uri_of(value), f"{name}/total"
    if uri == "federated_aggregate":
        return _aggregate(total, value)
    if uri in _SUMS:
        kind = value.type_signature.member
        return PartialAggregation(value, _adder(kind), total, _at_server(total, kind))
    if uri == "federated_secure_modular_sum":
        return _modular_sum(total, value)
    return None


def call(function: Block, *arguments: Block) -> Block:
    """Returns a call of a function with several arguments."""
    names = [name for name, _ in tff.structure.iter_elements(function.type_signature.parameter)]
    return tff.framework.Call(function, tff.framework.Struct(list(zip(names, arguments, strict=True))))


def _arguments(value: Block) -> tuple[list[Block], list[tff.Type]]:
    """Returns the arguments of an intrinsic, and its parameter types, which may be wider."""
    if not isinstance(value.argument, tff.framework.Struct):
        raise CannotCutError
    kinds = [kind for _, kind in tff.structure.iter_elements(value.function.type_signature.parameter)]
    return [part for _, part in tff.structure.iter_elements(value.argument)], kinds


def _server(member: tff.Type) -> tff.FederatedType:
    return tff.FederatedType(member, tff.SERVER)


def _at_server(name: str, member: tff.Type) -> Block:
    return tff.framework.Reference(name, _server(member))


def _apply(function: Block, total: str, kind: tff.Type) -> Block:
    """Returns the application of `function` to the merged accumulator at the server."""
    result = _server(function.type_signature.result)
    signature = tff.FunctionType([function.type_signature, _server(kind)], result)
    return call(tff.framework.Intrinsic("federated_apply", signature), function, _at_server(total, kind))


def _aggregate(total: str, value: Block) -> PartialAggregation:
    (*arguments, report), (*kinds, _) = _arguments(value)
    merge = arguments[-1]
    if looks_up(merge):
        raise CannotCutError
    kind = kinds[-1].result
    as_it_is = tff.framework.Lambda(total, kind, tff.framework.Reference(total, kind))
    signature = tff.FunctionType([*kinds, as_it_is.type_signature], _server(kind))
    partial = call(tff.framework.Intrinsic("federated_aggregate", signature), *arguments, as_it_is)
    return PartialAggregation(partial, lambda a, b: call(merge, a, b), total, _apply(report, total, kind))


def _modular_sum(total: str, value: Block) -> PartialAggregation:
    """Returns the steps of a modular sum: a plain sum, of which the driver takes the modulus."""
    (clients, modulus), (clients_kind, _) = _arguments(value)
    kind = clients_kind.member

    @tff.tensorflow.computation(kind, modulus.type_signature)
    def modulo(number: Any, moduli: Any) -> Any:
        leaves, divisors = _leaves(number), _leaves(moduli)
        divisors = divisors * len(leaves) if len(divisors) == 1 else divisors
        rest = [tf.math.floormod(x, tf.cast(m, x.dtype)) for x, m in zip(leaves, divisors, strict=True)]
        return _like(number, rest)

    reference = tff.framework.Reference(total, kind)
    of_total = tff.framework.Lambda(total, kind, call(modulo.to_building_block(), reference, modulus))
    signature = tff.FunctionType(clients_kind, _server(kind))
    partial = tff.framework.Call(tff.framework.Intrinsic("federated_sum", signature), clients)
    return PartialAggregation(partial, _adder(kind), total, _apply(of_total, total, kind))


def _adder(kind: tff.Type) -> Callable[[Block, Block], Block]:
    @tff.tensorflow.computation(kind, kind)
    def add(a: Any, b: Any) -> Any:
        return _like(a, [x + y for x, y in zip(_leaves(a), _leaves(b), strict=True)])

    return lambda a, b: call(add.to_building_block(), a, b)


def _leaves(value: Any) -> list[tf.Tensor]:
    """Returns the tensors of a value in TFF's order."""
    return list(tff.structure.flatten(tff.structure.from_container((value,), recursive=True)))


def _like(value: Any, leaves: list[tf.Tensor]) -> Any:
    """Returns the leaves in the structure of `value`."""
    return tff.structure.pack_sequence_as(tff.structure.from_container((value,), recursive=True), leaves)[0]
