"""The server's choice of a support: the entries where most has probably gathered on the clients.

The server sees only sums. An entry that was sent gives its growth: the magnitude of its mean per round since
it was sent before. The growth of an entry that was never sent is estimated from those of its row and its
column, because the gradient of a layer is a sum of products of its inputs and its output errors. The support
is the entries with the largest growth times rounds since they were sent, and some random ones.

Source of the estimate by rows and columns: Shazeer & Stern, "Adafactor: Adaptive Learning Rates with
Sublinear Memory Cost", ICML 2018 (arXiv 1804.04235), for squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedplug import ops
from fedplug.ops.types import Array

__all__ = ["expected_magnitudes", "updated_growth"]

_UNITS = 2.0**20
"""The largest growth in whole numbers, whose sums do not depend on the order."""

_MOST_UNITS = 1e38


def updated_growth(growth: Array, sent: Array, means: Array, support: Array, round_num: Array) -> Array:
    """Returns the growth after the means of a round.

    Args:
        growth: The growth of every entry, 0 for those that were never sent; float32 ``[n]``.
        sent: The round in which each entry was sent last, -1 if it never was; int32 ``[n]``.
        means: The mean of the round at the support; float32 ``[k]``.
        support: The support of the round; int32 ``[k]``.
        round_num: The round; int32 scalar.
    """
    before, rounds = ops.take(growth, support), ops.astype(round_num - ops.take(sent, support), "float32")
    found = abs(means) / rounds
    found = ops.where(ops.take(sent, support) < 0, found, (before + found) / 2)
    return ops.scatter_decode_add(growth, found - before, support)


def expected_magnitudes(
    growth: Array, sent: Array, round_num: Array, shapes: Sequence[tuple[int, ...]]
) -> Array:
    """Returns the expected magnitude of every entry in a round; float32 ``[n]``.

    Args:
        growth: See `updated_growth`.
        sent: See `updated_growth`.
        round_num: The round; int32 scalar.
        shapes: The shapes of the tensors, whose elements follow each other.
    """
    unit = ops.minimum(ops.divide_no_nan(growth * 0 + _UNITS, ops.max(growth)), _MOST_UNITS)
    whole = ops.astype(ops.floor(ops.multiply(growth, unit)), "int64")
    known, begin, estimates = ops.astype(sent >= 0, "int64"), 0, []
    for shape in shapes:
        end = begin + math.prod(shape)
        if end > begin:
            estimates.append(_by_row_and_column(whole[begin:end], known[begin:end], shape))
        begin = end
    whole = ops.where(sent >= 0, ops.astype(whole, "float64"), ops.concat(estimates))
    age = ops.astype(round_num - sent, "float64")
    return ops.astype(whole * age, "float32")


def _by_row_and_column(whole: Array, known: Array, shape: tuple[int, ...]) -> Array:
    """Returns for every entry the mean of its row times that of its column, by the mean; float64."""
    columns = shape[-1] if shape else 1
    places = ops.arange(math.prod(shape))
    mean = _mean(ops.sum(whole), ops.sum(known), 0.0)
    parts = []
    for of_entry, count in ((places // columns, math.prod(shape) // columns), (places % columns, columns)):
        sums, counts = (ops.segment_sum(x, of_entry, count) for x in (whole, known))
        parts.append(ops.take(_mean(sums, counts, mean), of_entry))
    return ops.divide_no_nan(parts[0] * parts[1], mean)


def _mean(total: Array, count: Array, other: Array | float) -> Array:
    """Returns the mean of ``count`` numbers and of ``other``."""
    return (ops.astype(total, "float64") + other) / (ops.astype(count, "float64") + 1.0)
