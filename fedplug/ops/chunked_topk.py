"""Top-k selection within chunks, with error feedback whose residual decays."""

from __future__ import annotations

import fedplug.kernels as kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on, of_each
from fedplug.ops.donation import place_for
from fedplug.ops.types import Array, ChunkedTopK, Scalar

__all__ = ["chunked_topk_residual", "chunked_topk_residual_of_each"]


@also_on(tensors=lambda: _tensorflow.chunked_topk.chunked_topk_residual)
def chunked_topk_residual(
    delta: Array,
    residual: Array | None,
    k: Array | int,
    *,
    chunk: int,
    decay: Scalar,
    lowering: str | None = None,
) -> ChunkedTopK:
    """Selects the ``k`` largest entries of every chunk of ``a = delta + decay * residual``.

    A chunk is ``chunk`` consecutive elements of the flattened ``a``. The last one may be shorter. The op
    selects the k entries of largest magnitude from each chunk, or all if there are fewer; of equal
    magnitudes, those with the lower index. The new residual is ``a`` with the selected entries set to zero:
    scattering the values into it restores ``a`` bit for bit. The product and the sum are each rounded once.
    The compiled op keeps denormal numbers. The reference flushes them to zero, as TensorFlow does.

    Source: Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo", arXiv 2508.15706,
    algorithm 1.

    Args:
        delta: The update; any shape of ``n < 2^31`` elements; float32 or float64.
        residual: The residual of earlier rounds. The shape and dtype of ``delta``.
        k: Number of entries to select from each chunk, 0 or more. Integer scalar.
        chunk: Number of elements of a chunk, 1 or more.
        decay: The factor of the residual, 0 to 1. Scalar of the dtype.
        lowering: See `fedplug.ops`.

    Raises:
        ArgumentError: ``k``, ``chunk`` or ``decay`` is out of range, or the shapes differ.
        NonFiniteError: A sum is NaN or infinite.
    """
    rest = place_for(residual, delta)
    values, indices = kernels.chunked_topk_residual(
        delta, residual, k, chunk=chunk, decay=decay, residual_out=None if rest is residual else rest
    )
    return ChunkedTopK(values, indices, rest)


chunked_topk_residual_of_each = of_each(chunked_topk_residual, "chunked_topk_residual_of_each")
"""Applies `chunked_topk_residual` to each tensor of a list; on a device in one call."""
