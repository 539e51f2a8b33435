"""What each intrinsic of TFF does with values in this process: one function per intrinsic.

Every function takes the value of the intrinsic's argument (a tuple where there are several), the intrinsic's
type and the round; functional arguments are called as `function(argument, round)`. Clients run in parallel,
but everything is put together in client order by one thread, so a result does not depend on timing. Must not
know how computations are parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.runtime.rounds import Round
from fedplug.runtime.values import Clients, dataset_from_variant, dataset_of_elements, flatten, unflatten

__all__ = ["INTRINSICS", "Intrinsic"]

Intrinsic = Callable[[Any, tff.FunctionType, Round], Any]


def federated_map(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<(T -> U), {T}@CLIENTS> -> {U}@CLIENTS`."""
    function, value = argument
    return round_.map("federated_map", lambda member: function(member, round_), round_.per_client(value))


def federated_map_all_equal(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<(T -> U), T@CLIENTS> -> U@CLIENTS`: every client would compute the same, so it is computed once."""
    function, value = argument
    return function(value, round_)


def federated_apply(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<(T -> U), T@SERVER> -> U@SERVER`."""
    function, value = argument
    return function(value, round_)


def federated_broadcast(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`T@SERVER -> T@CLIENTS`: by reference."""
    return argument


def federated_value(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`T -> T@CLIENTS`, `T -> T@SERVER`."""
    return argument


def federated_eval_at_clients(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`(-> T) -> {T}@CLIENTS`: evaluated by every client for itself, as it may draw random numbers."""
    return round_.map(
        "federated_eval_at_clients", lambda _: argument(None, round_), Clients([None] * round_.num_clients)
    )


def federated_eval_at_server(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`(-> T) -> T@SERVER`."""
    return argument(None, round_)


def federated_zip_at_clients(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """Turns a struct of clients' values into clients' structs."""
    values = _placed(argument, signature.parameter)
    if not any(isinstance(value, Clients) for value in values):
        return argument
    members = [round_.per_client(value) for value in values]
    return Clients(unflatten(signature.parameter, iter(parts)) for parts in zip(*members, strict=True))


def federated_zip_at_server(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """Turns a struct of the server's values into one value: the same tuple."""
    return argument


def federated_aggregate(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<{T}@CLIENTS, U, (<U,T> -> U), (<U,U> -> U), (U -> R)> -> R@SERVER`.

    One accumulator, in client order: `merge` has nothing to merge, and floating-point sums do not depend on
    timing.
    """
    value, zero, accumulate, _, report = argument
    total = round_.fold(
        "federated_aggregate",
        lambda accumulator, member: accumulate((accumulator, member), round_),
        zero,
        round_.per_client(value),
    )
    return report(total, round_)


def federated_sum(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`{T}@CLIENTS -> T@SERVER`."""
    return _sum(argument, signature.result.member, round_, "federated_sum")


def federated_select(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<{int32[n]}@CLIENTS, int32@SERVER, T@SERVER, (<T,int32> -> U)> -> {U*}@CLIENTS`.

    The function is pure: what several clients ask for is computed once.
    """
    keys, _, state, select = argument
    asked = [np.asarray(member).tolist() for member in round_.per_client(keys)]
    distinct = sorted({key for member in asked for key in member})
    slices = round_.map(
        "federated_select", lambda key: select((state, tf.constant(key, tf.int32)), round_), Clients(distinct)
    )
    by_key = dict(zip(distinct, slices, strict=True))
    element = signature.result.member.element
    return Clients(dataset_of_elements([by_key[key] for key in member], element) for member in asked)


def federated_secure_sum(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<{V}@CLIENTS, M> -> V@SERVER`: a plain sum, the bound enforced. A simulation, not cryptography."""
    value, bound = argument
    return _bounded_sum(value, flatten(bound), signature.result.member, round_, "federated_secure_sum")


def federated_secure_sum_bitwidth(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<{V}@CLIENTS, B> -> V@SERVER`: every number must fit into B bits."""
    value, bits = argument
    widths = [int(width) for width in flatten(bits)]
    if any(width > _MAX_SECURE_BITS for width in widths):
        raise ValueError(f"{max(widths)} is greater than the maximum bitwidth {_MAX_SECURE_BITS}")
    bounds = [tf.constant(2**width - 1, tf.int64) for width in widths]
    return _bounded_sum(value, bounds, signature.result.member, round_, "federated_secure_sum_bitwidth")


def federated_secure_modular_sum(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<{V}@CLIENTS, M> -> V@SERVER`: a plain sum, modulo M. A simulation, not cryptography."""
    value, modulus = argument
    total = flatten(_sum(value, signature.result.member, round_, "federated_secure_modular_sum"))
    moduli = _spread(flatten(modulus), len(total))
    reduced = [tf.math.floormod(t, tf.cast(m, t.dtype)) for t, m in zip(total, moduli, strict=True)]
    return unflatten(signature.result.member, iter(reduced))


def sequence_map(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<(T -> U), T*> -> U*`."""
    function, sequence = argument
    mapped = [function(element, round_) for element in _elements(sequence, signature.parameter[1].element)]
    return dataset_of_elements(mapped, signature.result.element)


def sequence_reduce(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`<T*, U, (<U,T> -> U)> -> U`."""
    sequence, accumulator, operator = argument
    for element in _elements(sequence, signature.parameter[0].element):
        accumulator = operator((accumulator, element), round_)
    return accumulator


def sequence_sum(argument: Any, signature: tff.FunctionType, round_: Round) -> Any:
    """`T* -> T`."""
    total = None
    for element in _elements(argument, signature.parameter.element):
        total = _add(total, flatten(element))
    return unflatten(signature.result, iter(_zeros(signature.result) if total is None else total))


# With 63 bits of an int64, at least one must be left for the sum of two clients.
_MAX_SECURE_BITS = 62


def _elements(sequence: tf.Tensor, element: tff.Type) -> Any:
    """Yields the elements of a sequence as values."""
    for value in dataset_from_variant(sequence, element):
        # TensorFlow flattens dictionaries in the order of their sorted keys, a TFF type has an order of its
        # own.
        yield _in_type_order(value)


def _in_type_order(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_in_type_order(part) for part in value.values())
    if isinstance(value, tuple):
        return tuple(_in_type_order(part) for part in value)
    return value


def _placed(value: Any, type_spec: tff.Type) -> list[Any]:
    """Returns the placed values in a struct of them."""
    if not isinstance(type_spec, tff.StructType):
        return [value]
    types = [element for _, element in tff.structure.iter_elements(type_spec)]
    return [placed for part, t in zip(value, types, strict=True) for placed in _placed(part, t)]


def _zeros(type_spec: tff.Type) -> list[tf.Tensor]:
    if isinstance(type_spec, tff.StructType):
        return [zero for _, element in tff.structure.iter_elements(type_spec) for zero in _zeros(element)]
    return [tf.zeros([size or 0 for size in type_spec.shape], type_spec.dtype)]


def _add(total: list[tf.Tensor] | None, leaves: list[tf.Tensor]) -> list[tf.Tensor]:
    return leaves if total is None else [a + b for a, b in zip(total, leaves, strict=True)]


def _spread(parts: list[tf.Tensor], count: int) -> list[tf.Tensor]:
    """One number for all leaves, or one per leaf."""
    return parts * count if len(parts) == 1 else parts


def _sum(
    value: Any,
    member: tff.Type,
    round_: Round,
    intrinsic: str,
    check: Callable[[list[tf.Tensor]], None] = lambda leaves: None,
) -> Any:
    """Adds up the clients' values in client order, each after its `check`."""

    def add(total: list[tf.Tensor] | None, update: Any) -> list[tf.Tensor]:
        leaves = flatten(update)
        check(leaves)
        return _add(total, leaves)

    total = round_.fold(intrinsic, add, None, round_.per_client(value))
    return unflatten(member, iter(_zeros(member) if total is None else total))


def _bounded_sum(value: Any, bounds: list[tf.Tensor], member: tff.Type, round_: Round, intrinsic: str) -> Any:
    def check(leaves: list[tf.Tensor]) -> None:
        for leaf, bound in zip(leaves, _spread(bounds, len(leaves)), strict=True):
            if bool(tf.reduce_any(tf.cast(leaf, tf.int64) > tf.cast(bound, tf.int64))):
                raise ValueError(
                    f"client value larger than maximum specified for secure sum: {leaf.numpy()} "
                    f"not less than or equal to {bound.numpy()}"
                )

    return _sum(value, member, round_, intrinsic, check)


INTRINSICS: dict[str, Intrinsic] = {
    "federated_aggregate": federated_aggregate,
    "federated_apply": federated_apply,
    "federated_broadcast": federated_broadcast,
    "federated_eval_at_clients": federated_eval_at_clients,
    "federated_eval_at_server": federated_eval_at_server,
    "federated_map": federated_map,
    "federated_map_all_equal": federated_map_all_equal,
    "federated_secure_modular_sum": federated_secure_modular_sum,
    "federated_secure_select": federated_select,
    "federated_secure_sum": federated_secure_sum,
    "federated_secure_sum_bitwidth": federated_secure_sum_bitwidth,
    "federated_select": federated_select,
    "federated_sum": federated_sum,
    "federated_value_at_clients": federated_value,
    "federated_value_at_server": federated_value,
    "federated_zip_at_clients": federated_zip_at_clients,
    "federated_zip_at_server": federated_zip_at_server,
    "sequence_map": sequence_map,
    "sequence_reduce": sequence_reduce,
    "sequence_sum": sequence_sum,
}
