"""The intrinsics that combine clients' values: their zero, how they add one value, and their report.

Values are added one at a time, in client order, to one accumulator. A result thus does not depend on timing,
and the `merge` of an aggregation is never called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.graphs.joined_calls import needs_values
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.values import add, flatten, unflatten, zeros

__all__ = ["REDUCTIONS", "MakeReduction", "Reduction"]


@dataclass(frozen=True)
class Reduction:
    """The result is `report(add(... add(add(zero, first), second) ..., last))`."""

    zero: Any
    add: Callable[[Any, Any], Any]
    report: Callable[[Any], Any]


# A function of the intrinsic's arguments after the clients' value, its type, and the round.
MakeReduction = Callable[[list[Any], tff.FunctionType, Invocation], Reduction]


def federated_aggregate(
    arguments: list[Any], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{T}@CLIENTS, U, (<U,T> -> U), (<U,U> -> U), (U -> R)> -> R@SERVER`."""
    zero, accumulate, _, report = arguments
    among_clients = invocation.of(None)
    return Reduction(
        zero,
        lambda total, value: accumulate((total, value), among_clients),
        lambda total: report(total, invocation),
    )


def federated_sum(arguments: list[Any], signature: tff.FunctionType, invocation: Invocation) -> Reduction:
    """`{T}@CLIENTS -> T@SERVER`."""
    return _sum(signature)


def federated_secure_sum(
    arguments: list[Any], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{V}@CLIENTS, M> -> V@SERVER`: a plain sum with enforced bounds. A simulation, not cryptography."""
    (bound,) = arguments
    return _bounded_sum(flatten(bound), signature)


def federated_secure_sum_bitwidth(
    arguments: list[Any], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{V}@CLIENTS, B> -> V@SERVER`: a plain sum of values below 2^B. A simulation, not cryptography."""
    (bits,) = arguments
    widths = [int(width) for width in flatten(bits)]
    if any(width > _MAX_SECURE_BITS for width in widths):
        raise ValueError(f"{max(widths)} is greater than the maximum bitwidth {_MAX_SECURE_BITS}")
    return _bounded_sum([tf.constant(2**width - 1, tf.int64) for width in widths], signature)


def federated_secure_modular_sum(
    arguments: list[Any], signature: tff.FunctionType, invocation: Invocation
) -> Reduction:
    """`<{V}@CLIENTS, M> -> V@SERVER`: a plain sum, modulo M. A simulation, not cryptography."""
    (modulus,) = arguments

    def modulo(total: list[tf.Tensor]) -> list[tf.Tensor]:
        moduli = _spread(flatten(modulus), len(total))
        return [tf.math.floormod(t, tf.cast(m, t.dtype)) for t, m in zip(total, moduli, strict=True)]

    return _sum(signature, finish=modulo)


# An int64 has 63 bits, and the sum of two clients needs one more than each.
_MAX_SECURE_BITS = 62


def _sum(
    signature: tff.FunctionType,
    check: Callable[[list[tf.Tensor]], None] = lambda leaves: None,
    finish: Callable[[list[tf.Tensor]], list[tf.Tensor]] = lambda total: total,
) -> Reduction:
    """Returns the sum of every leaf. Each client's leaves are checked before they are added."""
    member = signature.result.member

    def add_one(total: tuple[tf.Tensor, ...] | None, value: Any) -> tuple[tf.Tensor, ...]:
        leaves = flatten(value)
        check(leaves)
        return tuple(add(total, leaves))

    def report(total: tuple[tf.Tensor, ...] | None) -> Any:
        return unflatten(member, iter(finish(zeros(member) if total is None else list(total))))

    return Reduction(None, add_one, report)


def _bounded_sum(bounds: list[tf.Tensor], signature: tff.FunctionType) -> Reduction:
    def check(leaves: list[tf.Tensor]) -> None:
        needs_values()
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
