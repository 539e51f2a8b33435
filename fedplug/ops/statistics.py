"""Squared norms and bounds on code lengths, for metrics.

These numbers are for reading, not for payloads. The order of additions varies, so the results on NumPy arrays
and tensors differ by rounding.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedplug.kernels.arguments import whole, whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.spec import widened
from fedplug.ops.types import Array, Scalar
from fedplug.ops.wide_symbols import BYTE_BITS, unpack_wide

__all__ = ["subset_bits", "sum_of_squares", "symbol_bits"]

_RUN = 1024


@also_on(tensors=lambda: _tensorflow.statistics.sum_of_squares)
def sum_of_squares(x: Array) -> Scalar:
    """The sum of the squared elements of an array of floats. float64 scalar.

    Squares are computed in float32, or in float64 for float64. In float32, magnitudes above 1e19 have
    infinite squares, and those below 1e-23 have squares of 0.
    """
    wide = np.reshape(widened(x), [-1])
    whole = wide.size // _RUN * _RUN
    runs, rest = wide[:whole].reshape(-1, _RUN), wide[whole:]
    with np.errstate(over="ignore"):
        sums = np.einsum("ij,ij->i", runs, runs)  # reads memory once, without an array of squares
        return np.float64(sums.sum(dtype=np.float64) + np.dot(rest, rest))


@also_on(tensors=lambda: _tensorflow.statistics.subset_bits)
def subset_bits(count: Array | int, size: Array | int) -> Scalar:
    """``log2 C(size, count)``: the bits that identify one of all subsets of ``count`` entries.

    No code needs fewer bits on average over all subsets. The result is at most ``size`` times the entropy
    ``H(count / size)``. float64 scalar.

    Args:
        count: Integer scalar, 0 to ``size``.
        size: Integer scalar.
    """
    n, k = whole("size", size), whole("count", count)
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return np.float64(max(ways, 0.0) / math.log(2))


@also_on(tensors=lambda: _tensorflow.statistics.symbol_bits)
def symbol_bits(packed: Array, count: Array | int, bits: int) -> Scalar:
    """The empirical entropy of symbols times their number: the bits that a code of independent symbols needs.

    A coder that uses the neighbours of a symbol may need fewer. float64 scalar.

    Source: Shannon, "A Mathematical Theory of Communication", 1948.

    Args:
        packed: The symbols as `pack` writes them, uint8 vector.
        count: Number of symbols.
        bits: Bits per symbol, 1 to 16. `fedplug.ops.wide_symbols` packs those of more than 8.
    """
    symbols = whole_numbers("packed", packed, np.uint8)
    count, bits = whole("count", count, 0), whole("bits", bits, 1, 16)
    wide = bits > BYTE_BITS
    found = (
        np.bincount(np.asarray(unpack_wide(symbols, count, bits)))
        if wide
        else _histogram(symbols, count, bits)
    )
    found = found[found > 0].astype(np.float64)
    return np.float64(max(float((found * np.log2(found.sum() / found)).sum()), 0.0))


def _histogram(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.int64]:
    """Counts how often each symbol occurs. Eight symbols are ``bits`` bytes."""
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
    found[0] -= 8 * groups - count  # the unused places hold zeros
    return found
