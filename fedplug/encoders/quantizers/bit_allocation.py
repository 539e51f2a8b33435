"""Allocates bits to tensors so that the squared error is minimal."""

from __future__ import annotations

from collections.abc import Sequence

import fedplug.ops as ops
from fedplug.ops.types import Array, Scalar

__all__ = ["share_out"]


def share_out(
    total: Array, sizes: Sequence[Scalar], energies: Sequence[Scalar], gains: Sequence[float]
) -> list[Array]:
    """Returns the number of bits that each tensor gets beyond its minimum.

    An element of tensor t with i bits more than the minimum has the expected squared error ``energies[t] * (c
    - gains[0] - ... - gains[i - 1])``. If the gains fall, as they do for all quantizers in use, the greedy
    way is optimal: each bit goes to the tensor whose error it reduces most, for all elements of the tensor,
    until all bits are spent. Only the last tensor may get a bit for some of its elements.

    Source: Fox, "Discrete Optimization via Marginal Analysis", Management Science 13(3), 1966; for quantizers
    Gersho and Gray, "Vector Quantization and Signal Compression", 1992, section 8.4, and Shoham and Gersho,
    "Efficient Bit Allocation for an Arbitrary Set of Quantizers", IEEE TASSP 36(9), 1988.

    Args:
        total: Number of bits, an int64 scalar. Bits beyond the maximum of all tensors are not spent.
        sizes: Number of elements of each tensor.
        energies: The energy of each tensor. float64 scalars, 0 or more. Tensors of equal energy are served in
            order.
        gains: Positive, falling numbers. One for each bit that an element can have beyond the minimum.

    Returns:
        The bits of each tensor, an int64 scalar, at most ``len(gains)`` times its size.
    """
    steps = len(gains)
    counts = ops.repeat(ops.stack([ops.astype(size, "int64") for size in sizes]), steps)
    each = ops.stack(energies)
    by_bit = ops.reshape(each, [-1, 1]) * ops.asarray(gains, like=each)
    worth = ops.reshape(by_bit, [-1])
    order = ops.argsort_descending(worth)  # of equal ones the first comes first
    wanted = ops.take(counts, order)
    spent_before = ops.cumulative_sum(wanted)
    given = ops.clip(total - spent_before, ops.zeros_like(wanted), wanted)
    shared = ops.segment_sum(given, order // steps, len(energies))
    return [shared[tensor] for tensor in range(len(energies))]
