"""Sharing bits out among tensors so that the squared error is least. Must not know encoders or wire forms."""

from __future__ import annotations

from collections.abc import Sequence

from fedplug import ops
from fedplug.ops.types import Array

__all__ = ["share_out"]


def share_out(
    total: Array, sizes: Sequence[Array | int], energies: Sequence[Array], gains: Sequence[float]
) -> list[Array]:
    """How many of ``total`` bits each tensor gets beyond the fewest it must have.

    An element of tensor t with i bits more than the fewest has the expected squared error ``energies[t] *
    (c - gains[0] - ... - gains[i - 1])``. Where the gains fall, as those of all quantizers in use do, the
    greedy way is the best one: bit after bit is given to the tensor whose error falls most by it, each tensor
    as a whole, until the total is spent; only the last tensor served may get a bit for some of its elements.

    Source: Fox, "Discrete Optimization via Marginal Analysis", Management Science 13(3), 1966; for quantizers
    Gersho and Gray, "Vector Quantization and Signal Compression", 1992, section 8.4, and Shoham and Gersho,
    "Efficient Bit Allocation for an Arbitrary Set of Quantizers", IEEE TASSP 36(9), 1988.

    Args:
        total: Bits, int64 scalar; what is beyond the most that all tensors can have is not spent.
        sizes: Elements of each tensor.
        energies: Of each tensor; float64 scalars, 0 or more. Equal ones are served in order.
        gains: Above 0, falling; one for each bit an element can have beyond the fewest.

    Returns:
        The bits of each tensor, an int64 scalar, at most ``len(gains)`` times its size.
    """
    steps = len(gains)
    counts = ops.repeat(ops.stack([ops.astype(size, "int64") for size in sizes]), steps)
    by_bit = ops.reshape(ops.stack(energies), [-1, 1]) * ops.asarray(gains, like=energies[0])
    worth = ops.reshape(by_bit, [-1])
    order = ops.argsort_descending(worth)  # of equal ones the first comes first
    wanted = ops.take(counts, order)
    spent_before = ops.cumulative_sum(wanted)
    given = ops.clip(total - spent_before, ops.zeros_like(wanted), wanted)
    shared = ops.segment_sum(given, order // steps, len(energies))
    return [shared[tensor] for tensor in range(len(energies))]
