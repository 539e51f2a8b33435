"""TFF's intrinsics on values in this process: one function per intrinsic.

Every function takes the value of the intrinsic's argument (a tuple if there are several), the intrinsic's
type and the round. Functional arguments are called as `function(argument, round)`. An intrinsic placed at
clients is called once per client, with that client's values, so that it needs no case of its own. Intrinsics
that combine all clients' values are in `reductions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.graphs.devices import for_data_sets
from fedplug.tff.runtime.graphs.joined_calls import needs_values
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.values import (
    add,
    dataset_from_variant,
    dataset_of_elements,
    flatten,
    unflatten,
    zeros,
)

__all__ = ["INTRINSICS", "Intrinsic", "federated_value"]

Intrinsic = Callable[[Any, tff.FunctionType, Invocation], Any]


def federated_map(argument: Any, signature: tff.FunctionType, invocation: Invocation) -> Any:
    """`<(T -> U), {T}@CLIENTS> -> {U}@CLIENTS`, also for values of the server and all-equal values."""
    function, value = argument
    return function(value, invocation)


def federated_eval(argument: Any, signature: tff.FunctionType, invocation: Invocation) -> Any:
    """`(-> T) -> {T}@CLIENTS`, `(-> T) -> T@SERVER`: once per client, because it may draw random numbers."""
    return argument(None, invocation)


def federated_value(argument: Any, signature: tff.FunctionType, invocation: Invocation) -> Any:
    """`T -> T@CLIENTS`, `T -> T@SERVER`, `T@SERVER -> T@CLIENTS`, structs of values: by reference."""
    return argument


def federated_select(argument: Any, signature: tff.FunctionType, invocation: Invocation) -> Any:
    """`<{int32[n]}@CLIENTS, int32@SERVER, T@SERVER, (<T,int32> -> U)> -> {U*}@CLIENTS`."""
    needs_values()
    keys, _, state, select = argument
    slices = [select((state, key), invocation) for key in tf.unstack(keys)]
    return dataset_of_elements(slices, signature.result.member.element)


def sequence_map(argument: Any, signature: tff.FunctionType, invocation: Invocation) -> Any:
    """`<(T -> U), T*> -> U*`."""
    function, sequence = argument
    mapped = [
        function(element, invocation) for element in _elements(sequence, signature.parameter[1].element)
    ]
    return dataset_of_elements(mapped, signature.result.element)


def sequence_reduce(argument: Any, signature: tff.FunctionType, invocation: Invocation) -> Any:
    """`<T*, U, (<U,T> -> U)> -> U`."""
    sequence, accumulator, operator = argument
    for element in _elements(sequence, signature.parameter[0].element):
        accumulator = operator((accumulator, element), invocation)
    return accumulator


def sequence_sum(argument: Any, signature: tff.FunctionType, invocation: Invocation) -> Any:
    """`T* -> T`."""
    total = None
    for element in _elements(argument, signature.parameter.element):
        total = add(total, flatten(element))
    return unflatten(signature.result, iter(zeros(signature.result) if total is None else total))


def _elements(sequence: tf.Tensor, element: tff.Type) -> Any:
    """Yields the elements of a sequence as values."""
    needs_values()
    with for_data_sets():
        values = iter(dataset_from_variant(sequence, element))
    while True:
        with for_data_sets():
            value = next(values, None)
        if value is None:
            return
        # TensorFlow flattens dictionaries in the order of their sorted keys; a TFF type has its own order.
        yield _in_type_order(value)


def _in_type_order(value: Any) -> Any:
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
