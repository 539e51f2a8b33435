"""Aggregations in two halves: up to the accumulator of some clients, and from the merged accumulator on.

Must not know stages, nor where the halves run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.runtime.ray.blocks import Block, CannotCutError, looks_up, uri_of

__all__ = ["Halves", "call", "halves_of"]

# Bounds of secure sums hold for each client, so sums of some clients are merged by adding them up.
_SUMS = {"federated_sum", "federated_secure_sum", "federated_secure_sum_bitwidth"}


@dataclass(frozen=True)
class Halves:
    """An aggregation in two halves.

    Attributes:
        partial: The accumulator of the clients there are, placed at the server.
        merge: Returns the call that merges two accumulators.
        total: The name under which `finish` looks up the merged accumulator.
        finish: The result.
    """

    partial: Block
    merge: Callable[[Block, Block], Block]
    total: str
    finish: Block


def halves_of(name: str, value: Block) -> Halves | None:
    """Returns the halves of an aggregation whose result is called `name`; None, if `value` is none.

    Raises:
        CannotCutError: Its arguments are not spelled out, or its `merge` looks up names.
    """
    uri, total = uri_of(value), f"{name}/total"
    if uri == "federated_aggregate":
        return _aggregate(total, *_arguments(value))
    if uri in _SUMS:
        kind = value.type_signature.member
        return Halves(value, _adder(kind), total, _at_server(total, kind))
    if uri == "federated_secure_modular_sum":
        return _modular_sum(total, *_arguments(value))
    return None


def call(function: Block, *arguments: Block) -> Block:
    """Returns the call of a function with several arguments."""
    names = [name for name, _ in tff.structure.iter_elements(function.type_signature.parameter)]
    return tff.framework.Call(function, tff.framework.Struct(list(zip(names, arguments, strict=True))))


def _arguments(value: Block) -> list[Block]:
    if not isinstance(value.argument, tff.framework.Struct):
        raise CannotCutError
    return [part for _, part in tff.structure.iter_elements(value.argument)]


def _at_server(name: str, member: tff.Type) -> Block:
    return tff.framework.Reference(name, tff.FederatedType(member, tff.SERVER))


def _intrinsic(uri: str, member: tff.Type, *arguments: Block) -> Block:
    """Returns the call of an intrinsic whose result is at the server."""
    kinds = [argument.type_signature for argument in arguments]
    signature = tff.FunctionType(
        kinds[0] if len(kinds) == 1 else kinds, tff.FederatedType(member, tff.SERVER)
    )
    intrinsic = tff.framework.Intrinsic(uri, signature)
    return tff.framework.Call(intrinsic, *arguments) if len(kinds) == 1 else call(intrinsic, *arguments)


def _apply(function: Block, total: str, kind: tff.Type) -> Block:
    return _intrinsic("federated_apply", function.type_signature.result, function, _at_server(total, kind))


def _aggregate(
    total: str, clients: Block, zero: Block, accumulate: Block, merge: Block, report: Block
) -> Halves:
    if looks_up(merge):
        raise CannotCutError
    kind = merge.type_signature.result
    as_it_is = tff.framework.Lambda(total, kind, tff.framework.Reference(total, kind))
    partial = _intrinsic("federated_aggregate", kind, clients, zero, accumulate, merge, as_it_is)
    return Halves(partial, lambda a, b: call(merge, a, b), total, _apply(report, total, kind))


def _adder(kind: tff.Type) -> Callable[[Block, Block], Block]:
    @tff.tensorflow.computation(kind, kind)
    def add(a: Any, b: Any) -> Any:
        return tf.nest.map_structure(tf.add, a, b)

    return lambda a, b: call(add.to_building_block(), a, b)


def _modular_sum(total: str, clients: Block, modulus: Block) -> Halves:
    """A sum, of whose total the driver takes the modulus."""
    kind = clients.type_signature.member

    @tff.tensorflow.computation(kind, modulus.type_signature)
    def modulo(value: Any, moduli: Any) -> Any:
        leaves, divisors = _leaves(value), _leaves(moduli)
        divisors = divisors * len(leaves) if len(divisors) == 1 else divisors
        rest = [tf.math.floormod(x, tf.cast(m, x.dtype)) for x, m in zip(leaves, divisors, strict=True)]
        return tff.structure.pack_sequence_as(tff.structure.from_container((value,), recursive=True), rest)[0]

    of_total = tff.framework.Lambda(
        total, kind, call(modulo.to_building_block(), tff.framework.Reference(total, kind), modulus)
    )
    partial = _intrinsic("federated_sum", kind, clients)
    return Halves(partial, _adder(kind), total, _apply(of_total, total, kind))


def _leaves(value: Any) -> list[tf.Tensor]:
    """Returns the tensors of a value in TFF's order."""
    return list(tff.structure.flatten(tff.structure.from_container((value,), recursive=True)))
