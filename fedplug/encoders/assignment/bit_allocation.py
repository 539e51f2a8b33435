"""Sharing bits out among tensors so that the squared error is least. Must not know encoders or wire forms."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

__all__ = ["share_out"]


def share_out(
    total: tf.Tensor, sizes: Sequence[tf.Tensor | int], energies: Sequence[tf.Tensor], gains: Sequence[float]
) -> list[tf.Tensor]:
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
    counts = tf.repeat(tf.stack([tf.cast(size, tf.int64) for size in sizes]), steps)
    worth = tf.reshape(tf.stack(energies)[:, tf.newaxis] * tf.constant(gains, tf.float64), [-1])
    order = tf.math.top_k(worth, k=steps * len(energies)).indices  # of equal ones the first comes first
    wanted = tf.gather(counts, order)
    spent_before = tf.cumsum(wanted, exclusive=True)
    given = tf.clip_by_value(total - spent_before, tf.zeros_like(wanted), wanted)
    shared = tf.math.unsorted_segment_sum(given, order // steps, len(energies))
    return [shared[tensor] for tensor in range(len(energies))]
