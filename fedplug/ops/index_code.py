"""Codes of strictly ascending indices, and random indices that sender and receiver draw alike."""

from __future__ import annotations

import numpy as np

import fedplug.kernels as kernels
from fedplug.kernels.arguments import whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array, IndexForm, Scalar

__all__ = ["decode_indices", "draw_indices", "encode_indices"]


@also_on(tensors=lambda: _tensorflow.index_code.encode_indices)
def encode_indices(
    indices: Array, size: Array | int, *, form: IndexForm = "rice", lowering: str | None = None
) -> Array:
    """Encodes strictly ascending indices.

    Source: Rice & Plaunt, IEEE Trans. Commun. 1971. Golomb, IEEE Trans. Inf. Theory 1966, for "rice".

    Args:
        indices: Strictly ascending indices in ``[0, size)``. int32 ``[c]``.
        size: Number of elements that the indices refer to, below 2^31. Integer scalar.
        form: "rice" writes gaps in the shortest Rice code. "gaps" in an adaptive code, without a reference.
        lowering: See `fedplug.ops`.

    Returns:
        The code. ``[bytes]``, uint8.

    Raises:
        ArgumentError: The indices do not ascend, or are not in ``[0, size)``.
        LoweringError: On tensors, "gaps" needs the compiled op, and it cannot be loaded.
    """
    return kernels.encode_indices(whole_numbers("indices", indices, np.int32), size, form=form)


@also_on(tensors=lambda: _tensorflow.index_code.decode_indices)
def decode_indices(
    code: Array,
    count: Array | int,
    size: Array | int,
    *,
    form: IndexForm = "rice",
    lowering: str | None = None,
) -> Array:
    """Decodes indices from untrusted bytes.

    Args:
        code: ``[bytes]``, uint8.
        count: Number of indices in the code. Integer scalar.
        size: Number of elements that the indices refer to, below 2^31. Integer scalar.
        form: The form of the code.
        lowering: See `fedplug.ops`.

    Returns:
        The indices, strictly ascending, in ``[0, size)``. int32 ``[count]``.

    Raises:
        PayloadError: The bytes are not the code that `encode_indices` writes for ``count`` indices below
            ``size``. The decoder allocates memory only in proportion to the bytes.
        LoweringError: On tensors, "gaps" needs the compiled op, and it cannot be loaded.
    """
    return kernels.decode_indices(whole_numbers("code", code, np.uint8), count, size, form=form)


@also_on(tensors=lambda: _tensorflow.index_code.draw_indices)
def draw_indices(seed: Scalar, count: Scalar, size: Scalar, *, lowering: str | None = None) -> Array:
    """Draws one index from each of ``count`` ranges of nearly equal length.

    Range i begins at ``floor(i * size / count)``. csrc/core/random_numbers.h specifies which index is drawn.

    Args:
        seed: The seed. int64 scalar.
        count: Number of indices. Integer scalar.
        size: Number of elements that the indices refer to, below 2^31. Integer scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The indices, strictly ascending, in ``[0, size)``. int32 ``[count]``.

    Raises:
        ArgumentError: ``0 <= count <= size < 2^31`` does not hold.
    """
    return kernels.draw_indices(seed, count, size)
