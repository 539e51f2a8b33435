"""Top-k within chunks, with error feedback whose residual decays."""

from __future__ import annotations

from typing import Any

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for
from fedplug.ops.types import ChunkedTopK

__all__ = ["chunked_topk_residual"]


@also_on(tensors=lambda: _tensorflow.chunked_topk.chunked_topk_residual)
def chunked_topk_residual(
    delta: Any, residual: Any, k: Any, *, chunk: int, decay: Any, lowering: str | None = None
) -> ChunkedTopK:
    """Takes the ``k`` largest entries out of every chunk of ``a = delta + decay * residual``; keeps the rest.

    A chunk is ``chunk`` neighbours of the flattened ``a``; the last may be shorter. Exactly ``k`` entries of
    largest magnitude leave each, all where it has no more; ties go to the lower index. The residual is ``a``
    with these entries set to zero, so scattering the values into it gives ``a`` back, bit for bit. Product
    and sum are each rounded once. Not differentiable. The compiled op keeps denormal numbers; the reference
    takes them for zero, as TensorFlow's threads do.

    Source: Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo", arXiv 2508.15706,
    algorithm 1.

    Args:
        delta: The update of this round; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        residual: What earlier rounds left behind; shape and dtype of ``delta``.
        k: How many entries to take of each chunk, an integer scalar, 0 or more.
        chunk: Of how many elements a chunk is, 1 or more.
        decay: The share of the residual that is added, 0 to 1; scalar of that dtype.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`. No GPU
            kernel.

    Raises:
        TypeError: ``delta`` is not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ, or ``chunk`` is below 1.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, ``decay`` is not in [0, 1], the shapes
            differ, or a sum is not finite.
    """
    rest = place_for(residual, delta)
    values, indices = kernels.chunked_topk_residual(
        delta, residual, int(k), chunk=chunk, decay=decay, residual_out=None if rest is residual else rest
    )
    return ChunkedTopK(values, indices, rest)
