"""The randomized Hadamard transform of a vector in blocks. Must not know what is done with the result.

Additions only, in an order of their own, so that the bits do not depend on threads, device or execution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import ops
from fedplug.ops import Array, also_on_tensors

__all__ = ["LARGEST", "PADDING", "SMALLEST", "block_size", "random_signs", "row_sums", "transform"]

SMALLEST, LARGEST = 2**7, 2**20
PADDING = 32

_NARROW = 64  # numbers: steps below that are too short for NumPy's loops


@also_on_tensors
def block_size(count: Any) -> Any:
    """How long the blocks are into which ``count`` elements are divided: a power of two.

    The largest, up to 2^20, that needs no more than ``count / 32`` zeros to fill the last block; but at least
    128, or as few as hold all elements.
    """
    sizes = [2**i for i in range(LARGEST.bit_length())]
    holding_all = next((size for size in sizes if size >= count), LARGEST)
    cheap = max(size for size in sizes if -count % size <= count // PADDING)
    return min(max(cheap, SMALLEST), holding_all)


@also_on_tensors
def random_signs(count: Any, key: Array) -> Array:
    """``count`` times 1 or -1, float32, from a key of two int32."""
    words = ops.random_words((count + 31) // 32, key[0], key[1])
    bits = np.unpackbits(words.view(np.uint8), bitorder="little", count=count)
    return np.float32(1) - 2 * bits.astype(np.float32)


@also_on_tensors
def transform(rows: Array) -> Array:
    """``H`` times each row, where ``H`` has entries 1 and -1 and ``H H = n I``; n is a power of two."""
    n = rows.shape[1]
    narrow = min(n, _NARROW)
    columns = rows.reshape(-1, narrow).T.copy()  # neighbours are now far apart
    _butterflies(columns.reshape(-1), columns.shape[1], narrow)
    flat = columns.T.reshape(-1)
    _butterflies(flat, narrow, n // narrow)
    return flat.reshape(rows.shape)


@also_on_tensors
def row_sums(rows: Array) -> Array:
    """The sum of each row, of a power of two of elements: right halves are added to left halves."""
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        rows = rows[:, :half] + rows[:, half:]
    return rows[:, 0]


def _butterflies(flat: Array, step: int, times: int) -> None:
    """Makes sums and differences of elements ``step, 2 step, ... times step / 2`` apart, in place."""
    for half in (step * 2**i for i in range(times.bit_length() - 1)):
        pairs = flat.reshape(-1, 2, half)
        differences = pairs[:, 0] - pairs[:, 1]
        pairs[:, 0] += pairs[:, 1]
        pairs[:, 1] = differences
