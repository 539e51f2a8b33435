"""Gram-Schmidt orthogonalization, with the same bits on any number of threads."""

from __future__ import annotations

import math

from fedplug import ops
from fedplug.ops.types import Array

__all__ = ["orthonormal_columns"]

_EPSILONS = {4: 2.0**-23, 8: 2.0**-52}  # by the size of a number in bytes


def orthonormal_columns(p: Array) -> Array:
    """Makes the columns orthonormal in their order; a column that depends on those before becomes zero.

    Each column is projected twice, which is enough for orthogonality up to rounding (Giraud et al., "The loss
    of orthogonality in the Gram-Schmidt orthogonalization process", 2005). The rest of a dependent column is
    rounding noise; normalized, it would point in an arbitrary direction.
    """
    noise = ops.asarray(8 * math.sqrt(p.shape[0]) * _EPSILONS[ops.itemsize(p.dtype)], like=p)
    columns, done = ops.transpose(p), list[Array]()
    for j in range(p.shape[1]):
        column = before = columns[j]
        for _ in range(2):
            for other in done:
                column = column - _dot(other, column) * other
        norm = ops.sqrt(_dot(column, column))
        keep = norm > noise * ops.sqrt(_dot(before, before))
        done.append(ops.where(keep, ops.divide_no_nan(column, norm), ops.zeros_like(column)))
    return ops.stack(done, axis=1)


def _dot(x: Array, y: Array) -> Array:
    return ops.matrix_times(x[None], y[:, None])[0, 0]
