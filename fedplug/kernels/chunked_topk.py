"""Top-k selection within chunks of an update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import fedplug._kernels as _kernels
from fedplug.kernels.arguments import real, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedplug.types import Array, Scalar

__all__ = ["chunked_topk_residual"]


def chunked_topk_residual(
    delta: Array,
    residual: Array | None,
    k: Array | int,
    *,
    chunk: int,
    decay: Scalar = 1.0,
    residual_out: Array | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Selects the ``k`` largest entries of every chunk of ``a = delta + decay * residual``.

    A chunk is ``chunk`` consecutive elements of the flattened ``a``. Order, ties and values are those of
    :func:`topk_residual`, within each chunk. All entries of a chunk with at most ``k`` elements are selected.
    The last chunk may be one. ``residual`` becomes ``a`` with the selected entries set to +0: scattering the
    values into it restores ``a`` bit for bit (Sarfi et al., "Communication Efficient LLM Pre-training with
    SparseLoCo", arXiv 2508.15706).

    Args:
        delta: The update. Any shape, n elements, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        k: Number of entries to select from each chunk, 0 or more.
        chunk: Number of elements of a chunk, 1 or more. Fast if a chunk fits into the first-level cache.
        decay: The factor of the residual, 0 to 1, rounded to the dtype.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        ``(values, indices)``: the entries, in the dtype of ``delta``, and their flat indices, int32, strictly
        ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or a number is out of
            range.
        NonFiniteError: A sum is NaN or infinite. ``count`` of the error has their number. ``residual`` is
            unchanged.
    """
    share = np.full(1, real("decay", decay), np.asarray(delta).dtype)
    return _kernels.chunked_topk_residual(
        delta, residual, whole("k", k), whole("chunk", chunk), share, residual_out
    )
