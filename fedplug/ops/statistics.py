"""What metrics are made of: squared norms, and how few bytes an ideal code would take.

For people to read, not for what is sent: the order of additions is not fixed, so results of NumPy and of
TensorFlow differ by rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.floats import widened
from fedplug.ops.types import Array

__all__ = ["subset_bits", "sum_of_squares", "symbol_bits"]

_RUN = 1024


@also_on(tensors=lambda: _tensorflow.statistics.sum_of_squares)
def sum_of_squares(x: Array) -> Array:
    """Of all elements of an array of floats; float64 scalar.

    Squares are taken in float32, of float64 in float64: of magnitudes beyond 1e19 they are infinite, below
    1e-23 they are 0.
    """
    wide = np.reshape(widened(x), [-1])
    whole = wide.size // _RUN * _RUN
    runs, rest = wide[:whole].reshape(-1, _RUN), wide[whole:]
    with np.errstate(over="ignore"):
        sums = np.einsum("ij,ij->i", runs, runs)  # one walk over memory, and no array of the squares
        return np.float64(sums.sum(dtype=np.float64) + np.dot(rest, rest))


@also_on(tensors=lambda: _tensorflow.statistics.subset_bits)
def subset_bits(count: Any, size: Any) -> Array:
    """``log2 C(size, count)``: bits that name ``count`` entries of ``size``, all sets being equally likely.

    It is what any code takes at least, averaged over all sets (one that fits some sets may take less of
    these), and at most ``size`` times the entropy ``H(count / size)``. float64 scalar.

    Args:
        count: Integer scalar, 0 to ``size``.
        size: Integer scalar.
    """
    n, k = int(size), int(count)
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return np.float64(max(ways, 0.0) / math.log(2))


@also_on(tensors=lambda: _tensorflow.statistics.symbol_bits)
def symbol_bits(packed: Array, count: Any, bits: int) -> Array:
    """The empirical entropy of symbols, times their number: what a code of one symbol after the other takes.

    A coder that looks at neighbours, too, may take less. float64 scalar.

    Source: Shannon, "A Mathematical Theory of Communication", 1948.

    Args:
        packed: As `pack` writes them, uint8 vector.
        count: How many there are.
        bits: Of each, 1 to 8.
    """
    found = _histogram(np.asarray(packed), int(count), bits).astype(np.float64)
    found = found[found > 0]
    return np.float64(max(float((found * np.log2(found.sum() / found)).sum()), 0.0))


def _histogram(packed: Any, count: int, bits: int) -> Any:
    """How often each symbol occurs; eight of them are ``bits`` bytes."""
    groups = -(-count // 8)
    eights = np.zeros((groups, bits), np.uint8)
    eights.reshape(-1)[: packed.size] = packed
    found = np.zeros(2**bits, np.int64)
    for place in range(8):
        byte, shift = divmod(place * bits, 8)
        symbols = eights[:, byte] >> shift
        if shift + bits > 8:
            symbols |= eights[:, byte + 1] << (8 - shift)
        found += np.bincount(symbols & (2**bits - 1), minlength=2**bits)
    found[0] -= 8 * groups - count  # the places that are not used hold zeros
    return found
