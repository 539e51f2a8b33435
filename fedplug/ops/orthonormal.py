"""Gram-Schmidt orthogonalization, with the same bits on any number of threads."""

from __future__ import annotations

import math

from fedplug.ops.arrays import asarray, divide_no_nan, sqrt, stack, transpose, where, zeros_like
from fedplug.ops.low_rank import matrix_times
from fedplug.ops.spec import itemsize
from fedplug.ops.types import Array

__all__ = ["orthonormal_columns"]

_EPSILONS = {4: 2.0**-23, 8: 2.0**-52}  # by the size of a number in bytes


def orthonormal_columns(p: Array) -> Array:
    """Makes the columns orthonormal in their order; a column that depends on those before becomes zero.

    Each column is projected twice, which is enough for orthogonality up to rounding (Giraud et al., "The loss
    of orthogonality in the Gram-Schmidt orthogonalization process", 2005). The rest of a dependent column is
    rounding noise. Normalized, it would point in an arbitrary direction.

    Args:
        p: ``[m, r]``. float32 or float64. A graph needs a static shape.
    """
    noise = asarray(8 * math.sqrt(p.shape[0]) * _EPSILONS[itemsize(p.dtype)], like=p)
    columns, done = transpose(p), list[Array]()
    for j in range(p.shape[1]):
        column = before = columns[j]
        for _ in range(2):
            for other in done:
                column = column - _dot(other, column) * other
        norm = sqrt(_dot(column, column))
        keep = norm > noise * sqrt(_dot(before, before))
        done.append(where(keep, divide_no_nan(column, norm), zeros_like(column)))
    return stack(done, axis=1)


def _dot(x: Array, y: Array) -> Array:
    return matrix_times(x[None], y[:, None])[0, 0]
