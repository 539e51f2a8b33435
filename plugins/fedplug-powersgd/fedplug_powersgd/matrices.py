"""Products of a large matrix with a few vectors, with the same bits on any number of threads.

The matrix multiplication of a library orders its additions by threads and vector width. Here elements are
multiplied first, and the products are added halves to halves, element by element. Must not know what the
vectors mean.
"""

from __future__ import annotations

import math

from fedplug import ops
from fedplug.ops import Array

__all__ = ["column_sums", "orthonormal_columns", "product", "times", "times_transposed"]

_EPSILONS = {4: 2.0**-23, 8: 2.0**-52}  # by the bytes of a number


def column_sums(rows: Array) -> Array:
    """The sum over the first axis: ``[m, n]`` to ``[n]``; 0 where m is 0."""
    if not rows.shape[0]:
        return ops.full(rows.shape[1], ops.asarray(0, like=rows))
    while rows.shape[0] > 1:
        half = (rows.shape[0] + 1) // 2
        left, right = rows[:half], rows[half:]
        if rows.shape[0] % 2:
            right = ops.concat([right, ops.zeros_like(rows[:1])])
        rows = left + right
    return rows[0]


def times(a: Array, b: Array) -> Array:
    """``A B`` for A ``[m, n]`` and B ``[n, r]``: ``[m, r]``."""
    return times_transposed(ops.transpose(a), b)


def times_transposed(a: Array, b: Array) -> Array:
    """``A' B`` for A ``[m, n]`` and B ``[m, r]``: ``[n, r]``."""
    columns = [column_sums(a * b[:, j : j + 1]) for j in range(b.shape[1])]
    return ops.stack(columns, axis=1)


def product(p: Array, q: Array) -> Array:
    """``P Q'`` for P ``[m, r]`` and Q ``[n, r]``: ``[m, n]``, a column of each after the other."""
    total = p[:, :1] * q[:, 0]
    for j in range(1, p.shape[1]):
        total += p[:, j : j + 1] * q[:, j]
    return total


def orthonormal_columns(p: Array) -> Array:
    """The columns made orthonormal in their order (Gram-Schmidt); zero where one depends on those before.

    Each is projected twice, which is enough for orthogonality to rounding (Giraud et al., "The loss of
    orthogonality in the Gram-Schmidt orthogonalization process", 2005). What is left of a dependent column is
    rounding noise; made a unit vector, it would point anywhere.
    """
    noise = ops.asarray(8 * math.sqrt(p.shape[0]) * _EPSILONS[ops.itemsize(p.dtype)], like=p)
    done: list[Array] = []
    for j in range(p.shape[1]):
        column = before = p[:, j]
        for _ in range(2):
            for other in done:
                column = column - _dot(other, column) * other
        norm = ops.sqrt(_dot(column, column))
        keep = norm > noise * ops.sqrt(_dot(before, before))
        done.append(ops.where(keep, ops.divide_no_nan(column, norm), ops.zeros_like(column)))
    return ops.stack(done, axis=1)


def _dot(x: Array, y: Array) -> Array:
    return column_sums((x * y)[:, None])[0]
