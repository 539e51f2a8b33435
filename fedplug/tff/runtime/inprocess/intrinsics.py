"""TFF's intrinsics on values in this process: one function per intrinsic.

Functions in `INTRINSICS` take the value of the intrinsic's argument (a tuple if there are several), the
intrinsic's type and the round. Functional arguments are called as `function(argument, round)`. An intrinsic
placed at clients is called once per client, with that client's values, so that it needs no case of its own.

Functions in `REDUCTIONS` combine all clients' values: their zero, how they add one value, and their report.
Values are added one at a time, in client order, to one accumulator. A result thus does not depend on timing,
and the `merge` of an aggregation is never called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.graphs.devices import for_data_sets
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.values import (
    Value,
    add,
    dataset_from_variant,
    dataset_of_elements,
    flatten,
    unflatten,
    zeros,
)

__all__ = ["INTRINSICS", "REDUCTIONS", "Intrinsic", "MakeReduction", "Reduction"]

Intrinsic = Callable[[Value, tff.FunctionType, Invocation], Value]

# An int64 has 63 bits, and the sum of two clients needs one more than each.
_MAX_SECURE_BITS = 62


def federated_map(argument: Value, signature: tff.FunctionType, invocation: Invocation) -> Value:
    """`<(T -> U), {T}@CLIENTS> -> {U}@CLIENTS`, also for values of the server and all-equal values."""
    function, value = argument
    return function(value, invocation)


def federated_eval(argument: Value, signature: tff.FunctionType, invocation: Invocation) -> Value:
    """`(-> T) -> {T}@CLIENTS`, `(-> T) -> T@SERVER`: once per client, because it may draw random numbers."""
    return argument(None, invocation)


def federated_value(argument: Value, signature: tff.FunctionType, invocation: Invocation) -> Value:
    """`T -> T@CLIENTS`, `T -> T@SERVER`, `T@SERVER -> T@CLIENTS`, structs of values: by reference."""
    return argument


def federated_select(argument: Value, signature: tff.FunctionType, invocation: Invocation) -> Value:
    """`<{int32[n]}@CLIENTS, int32@SERVER, T@SERVER, (<T,int32> -> U)> -> {U*}@CLIENTS`."""
    keys, _, state, select = argument
    slices = [select((state, key), invocation) for key in tf.unstack(keys)]
    return dataset_of_elements(slices, signature.result.member.element)


def sequence_map(argument: Value, signature: tff.FunctionType, invocation: Invocation) -> Value:
    """`<(T -> U), T*> -> U*`."""
    function, sequence = argument
    mapped = [
        function(element, invocation) for element in _elements(sequence, signature.parameter[1].element)
    ]
    return dataset_of_elements(mapped, signature.result.element)


def sequence_reduce(argument: Value, signature: tff.FunctionType, invocation: Invocation) -> Value:
    """`<T*, U, (<U,T> -> U)> -> U`."""
    sequence, accumulator, operator = argument
    for element in _elements(sequence, signature.parameter[0].element):
        accumulator = operator((accumulator, element), invocation)
    return accumulator


def sequence_sum(argument: Value, signature: tff.FunctionType, invocation: Invocation) -> Value:
    """`T* -> T`."""
    total = None
    for element in _elements(argument, signature.parameter.element):
        total = add(total, flatten(element))
    return unflatten(signature.result, iter(zeros(signature.result) if total is None else total))


def _elements(sequence: tf.Tensor, element: tff.Type) -> Value:
    """Yields the elements of a sequence as values."""
    with for_data_sets():
        values = iter(dataset_from_variant(sequence, element))
    while True:
        with for_data_sets():
            value = next(values, None)
        if value is None:
            return
        # TensorFlow flattens dictionaries in the order of their sorted keys; a TFF type has its own order.
        yield _in_type_order(value)


def _in_type_order(value: Value) -> Value:
    if isinstance(value, dict):
        return tuple(_in_type_order(part) for part in value.values())
    if isinstance(value, tuple):
        return tuple(_in_type_order(part) for part in value)
    return value


INTRINSICS: dict[str, Intrinsic] = {
    "federated_apply": federated_map,
    "federated_broadcast": federated_value,
    "federated_eval_at_clients": federated_eval,
    "federated_eval_at_server": federated_eval,
    "federated_map": federated_map,
    "federated_map_all_equal": federated_map,
    "federated_secure_select": federated_select,
    "federated_select": federated_select,
    "federated_value_at_clients": federated_value,
    "federated_value_at_server": federated_value,
    "federated_zip_at_clients": federated_value,
    "federated_zip_at_server": federated_value,
    "sequence_map": sequence_map,
    "sequence_reduce": sequence_reduce,
    "sequence_sum": sequence_sum,
}


@dataclass(frozen=True)
class Reduction:
    """The result is `report(add(... add(add(zero, first), second) ..., last))`."""

    zero: Value
    add: Callable[[Value, Value], Value]
    report: Callable[[Value], Value]


# A function of the intrinsic's arguments after the clients' value, its type, and the round.
MakeReduction = Callable[[list[Value], tff.FunctionType, Invocation], Reduction]


def federated_aggregate(
    arguments: list[Value], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{T}@CLIENTS, U, (<U,T> -> U), (<U,U> -> U), (U -> R)> -> R@SERVER`."""
    zero, accumulate, _, report = arguments
    among_clients = invocation.of(None)
    return Reduction(
        zero,
        lambda total, value: accumulate((total, value), among_clients),
        lambda total: report(total, invocation),
    )


def federated_sum(arguments: list[Value], signature: tff.FunctionType, invocation: Invocation) -> Reduction:
    """`{T}@CLIENTS -> T@SERVER`."""
    return _sum(signature)


def federated_secure_sum(
    arguments: list[Value], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{V}@CLIENTS, M> -> V@SERVER`: a plain sum with enforced bounds. A simulation, not cryptography."""
    (bound,) = arguments
    return _bounded_sum(flatten(bound), signature)


def federated_secure_sum_bitwidth(
    arguments: list[Value], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{V}@CLIENTS, B> -> V@SERVER`: a plain sum of values below 2^B. A simulation, not cryptography."""
    (bits,) = arguments
    widths = [int(width) for width in flatten(bits)]
    if any(width > _MAX_SECURE_BITS for width in widths):
        raise ValueError(f"{max(widths)} is greater than the maximum bitwidth {_MAX_SECURE_BITS}")
    return _bounded_sum([tf.constant(2**width - 1, tf.int64) for width in widths], signature)


def federated_secure_modular_sum(
    arguments: list[Value], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{V}@CLIENTS, M> -> V@SERVER`: a plain sum, modulo M. A simulation, not cryptography."""
    (modulus,) = arguments

    def modulo(total: list[tf.Tensor]) -> list[tf.Tensor]:
        moduli = _spread(flatten(modulus), len(total))
        return [tf.math.floormod(t, tf.cast(m, t.dtype)) for t, m in zip(total, moduli, strict=True)]

    return _sum(signature, finish=modulo)


def _sum(
    signature: tff.FunctionType,
    check: Callable[[list[tf.Tensor]], None] = lambda leaves: None,
    finish: Callable[[list[tf.Tensor]], list[tf.Tensor]] = lambda total: total,
) -> Reduction:
    """Returns the sum of every leaf. Each client's leaves are checked before they are added."""
    member = signature.result.member

    def add_one(total: tuple[tf.Tensor, ...] | None, value: Value) -> tuple[tf.Tensor, ...]:
        leaves = flatten(value)
        check(leaves)
        return tuple(add(total, leaves))

    def report(total: tuple[tf.Tensor, ...] | None) -> Value:
        return unflatten(member, iter(finish(zeros(member) if total is None else list(total))))

    return Reduction(None, add_one, report)


def _bounded_sum(bounds: list[tf.Tensor], signature: tff.FunctionType) -> Reduction:
    def check(leaves: list[tf.Tensor]) -> None:
        for leaf, bound in zip(leaves, _spread(bounds, len(leaves)), strict=True):
            if bool(tf.reduce_any(tf.cast(leaf, tf.int64) > tf.cast(bound, tf.int64))):
                raise tf.errors.InvalidArgumentError(  # as the assertion in TFF's own graph does
                    None,
                    None,
                    f"client value larger than maximum specified for secure sum: {leaf.numpy()} "
                    f"not less than or equal to {bound.numpy()}",
                )

    return _sum(signature, check)


def _spread(parts: list[tf.Tensor], count: int) -> list[tf.Tensor]:
    """Returns one number per leaf; a single number applies to all leaves."""
    return parts * count if len(parts) == 1 else parts


REDUCTIONS: dict[str, MakeReduction] = {
    "federated_aggregate": federated_aggregate,
    "federated_secure_modular_sum": federated_secure_modular_sum,
    "federated_secure_sum": federated_secure_sum,
    "federated_secure_sum_bitwidth": federated_secure_sum_bitwidth,
    "federated_sum": federated_sum,
}
