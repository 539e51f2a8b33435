"""Count-sketch and its estimates, of NumPy arrays and of tensors. Must not know any encoder.

Arrays go to the compiled kernel; what is here computes the same bits where there is none, and is its
reference.

Source: Charikar, Chen, Farach-Colton, "Finding frequent items in data streams", ICALP 2002.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array
from fedplug_sketch import _tensorflow, kernel

__all__ = ["count_sketch", "count_sketch_of_arrays", "estimate", "estimate_of_arrays", "row_keys"]

_CHUNK = 2**16  # hashes at a time: they stay in the cache, and need no memory that the vector does not


@also_on(tensors=lambda: _tensorflow.ops.row_keys)
def row_keys(rows: int, seed: int, round_num: Any) -> Array:
    """What decides columns and signs in each row, uint64 ``[rows]``: the same for equal seed and round."""
    both = np.array([(seed << 32) + int(round_num)], np.uint64)
    return _mix(_mix(both) + np.arange(1, rows + 1, dtype=np.uint64))


@also_on(tensors=lambda: _tensorflow.ops.count_sketch)
def count_sketch(x: Array, keys: Array, columns: int) -> Array:
    """``table[r, column_r(i)] += sign_r(i) * x[i]`` for every i, ascending, and every row r.

    Args:
        x: Float32 or float64 ``[n]``.
        keys: From `row_keys`, uint64 ``[rows]``.
        columns: At least 1, unless n is 0.

    Returns:
        The table, ``[rows, columns]``, of x's dtype.
    """
    if kernel.is_built():
        return kernel.count_sketch(x, keys, columns)
    return count_sketch_of_arrays(x, keys, columns)


def count_sketch_of_arrays(x: Array, keys: Array, columns: int) -> Array:
    """The same in NumPy."""
    table = np.zeros((keys.size, columns), x.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _parts(x.size, keys.size):
            minus, places = _signs_and_columns(part, keys, columns)
            for row, of_row, signed in zip(table, places, np.where(minus, -x[part], x[part]), strict=True):
                np.add.at(row, of_row, signed)
    return table


@also_on(tensors=lambda: _tensorflow.ops.estimate)
def estimate(table: Array, keys: Array, size: int) -> Array:
    """The median over rows r of ``sign_r(i) * table[r, column_r(i)]``, for every ``i < size``.

    Args:
        table: From `count_sketch`, or a sum of such tables.
        keys: Those it was made with.
        size: n.

    Returns:
        ``[n]``, of the table's dtype; for an even number of rows the mean of the two values in the middle.
    """
    if kernel.is_built():
        return kernel.estimate(table, keys, size)
    return estimate_of_arrays(table, keys, size)


def estimate_of_arrays(table: Array, keys: Array, size: int) -> Array:
    """The same in NumPy."""
    rows, columns = table.shape
    estimates = np.empty(size, table.dtype)
    for part in _parts(size, rows):
        minus, places = _signs_and_columns(part, keys, columns)
        found = np.take_along_axis(table, places, axis=1)
        # Stable, so that of zeros that differ in sign the same one is in the middle as in a graph.
        ascending = np.sort(np.where(minus, -found, found), axis=0, kind="stable")
        half = rows // 2
        estimates[part] = ascending[half] if rows % 2 else ascending[half - 1] / 2 + ascending[half] / 2
    return estimates


def _parts(size: int, rows: int) -> Iterator[slice]:
    step = max(1, _CHUNK // rows)
    return (slice(begin, min(begin + step, size)) for begin in range(0, size, step))


def _signs_and_columns(part: slice, keys: Array, columns: int) -> tuple[Array, Array]:
    """Of these elements in every row: bool and int64 ``[rows, elements]``; True stands for minus."""
    hashes = _mix(np.arange(part.start, part.stop, dtype=np.uint64) + keys[:, np.newaxis])
    places = (hashes >> np.uint64(32)) * np.uint64(columns) >> np.uint64(32)
    return hashes & np.uint64(1) == 1, places.astype(np.int64)


def _mix(x: Array) -> Array:
    """The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)
