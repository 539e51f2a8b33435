"""Takes the largest entries out of every chunk of an update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["chunked_topk_residual"]


def chunked_topk_residual(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    k: int,
    *,
    chunk: int,
    decay: float = 1.0,
    residual_out: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Takes the ``k`` largest entries out of every ``chunk`` neighbours in ``a = delta + decay * residual``.

    Order, ties and values are those of :func:`topk_residual`, within each chunk of the flattened ``a``. A
    chunk of no more than ``k`` elements, which the last one may be, leaves as a whole. ``residual`` becomes
    ``a`` with the entries taken set to +0, so that putting the values back into their places gives ``a`` bit
    for bit (Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo", arXiv 2508.15706).

    Args:
        delta: The update; any shape, n elements, float32 or float64. Not changed.
        residual: What earlier rounds left behind; n elements, the dtype of ``delta``. Updated in place,
            unless ``residual_out`` is given. None, which needs ``residual_out``, is as zeros.
        k: How many entries to take of each chunk, 0 or more.
        chunk: Of how many elements a chunk is, 1 or more. Fast where one fits a first-level cache.
        decay: The share of the residual that is added, 0 to 1; rounded to the dtype.
        residual_out: n elements, the dtype of ``delta``: where the new residual goes, whatever is there.
            After an error it holds anything.

    Returns:
        ``(values, indices)``: the entries, in the dtype of ``delta``, and their flat positions, int32,
        strictly ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or a number is out of
            range.
        NonFiniteError: A sum is NaN or infinite; its ``count`` says how many are. ``residual`` is not
            changed.
    """
    share = np.full(1, decay, np.asarray(delta).dtype)
    return _kernels.chunked_topk_residual(delta, residual, k, chunk, share, residual_out)
