"""Count-sketch and its estimates, on NumPy arrays and on tensors.

Arrays are passed to the compiled kernel. The NumPy code computes the same bits, and is its reference.

Source: Charikar, Chen, Farach-Colton, "Finding frequent items in data streams", ICALP 2002.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedplug.kernels.arguments import whole
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array
from fedplug_sketch import _tensorflow, kernel

__all__ = ["count_sketch", "count_sketch_of_arrays", "estimate", "estimate_of_arrays", "row_keys"]

_CHUNK = 2**16  # hashes at a time, which fit into the cache


@also_on(tensors=lambda: _tensorflow.ops.row_keys)
def row_keys(rows: int, seed: int, round_num: object) -> Array:
    """Returns the keys of columns and signs in each row, uint64 ``[rows]``, from seed and round."""
    both = np.array([(seed << 32) + whole("round_num", round_num)], np.uint64)
    return _mix(_mix(both) + np.arange(1, rows + 1, dtype=np.uint64))


@also_on(tensors=lambda: _tensorflow.ops.count_sketch)
def count_sketch(x: Array, keys: Array, columns: int) -> Array:
    """Computes ``table[r, column_r(i)] += sign_r(i) * x[i]`` for every i, ascending, and every row r.

    Args:
        x: Values, float32 or float64 ``[n]``.
        keys: Keys of `row_keys`, uint64 ``[rows]``.
        columns: Number of columns; at least 1, unless n is 0.

    Returns:
        The table, ``[rows, columns]``, of x's dtype.
    """
    if kernel.is_built():
        return kernel.count_sketch(x, keys, columns)
    return count_sketch_of_arrays(x, keys, columns)


def count_sketch_of_arrays(x: Array, keys: Array, columns: int) -> Array:
    """Computes `count_sketch` in NumPy."""
    table = np.zeros((keys.size, columns), x.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _parts(x.size, keys.size):
            minus, places = _signs_and_columns(part, keys, columns)
            for row, of_row, signed in zip(table, places, np.where(minus, -x[part], x[part]), strict=True):
                np.add.at(row, of_row, signed)
    return table


@also_on(tensors=lambda: _tensorflow.ops.estimate)
def estimate(table: Array, keys: Array, size: int) -> Array:
    """Computes the median over rows r of ``sign_r(i) * table[r, column_r(i)]``, for every ``i < size``.

    Args:
        table: A table of `count_sketch`, or a sum of such tables.
        keys: The keys of the table.
        size: Number of elements n.

    Returns:
        Estimates ``[n]`` of the table's dtype; for an even number of rows the mean of the middle two values.
    """
    if kernel.is_built():
        return kernel.estimate(table, keys, size)
    return estimate_of_arrays(table, keys, size)


def estimate_of_arrays(table: Array, keys: Array, size: int) -> Array:
    """Computes `estimate` in NumPy."""
    rows, columns = table.shape
    estimates = np.empty(size, table.dtype)
    for part in _parts(size, rows):
        minus, places = _signs_and_columns(part, keys, columns)
        found = np.take_along_axis(table, places, axis=1)
        # A stable sort selects among zeros of different sign the same one as a graph.
        ascending = np.sort(np.where(minus, -found, found), axis=0, kind="stable")
        half = rows // 2
        estimates[part] = ascending[half] if rows % 2 else ascending[half - 1] / 2 + ascending[half] / 2
    return estimates


def _parts(size: int, rows: int) -> Iterator[slice]:
    step = max(1, _CHUNK // rows)
    return (slice(begin, min(begin + step, size)) for begin in range(0, size, step))


def _signs_and_columns(part: slice, keys: Array, columns: int) -> tuple[Array, Array]:
    """Returns signs and columns in every row, bool and int64 ``[rows, elements]``. True means minus."""
    hashes = _mix(np.arange(part.start, part.stop, dtype=np.uint64) + keys[:, np.newaxis])
    places = (hashes >> np.uint64(32)) * np.uint64(columns) >> np.uint64(32)
    return hashes & np.uint64(1) == 1, places.astype(np.int64)


def _mix(x: Array) -> Array:
    """Applies the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)
