"""Codes of strictly ascending indices. The layouts are specified in csrc/core/index_code.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array, IndexForm

__all__ = ["decode_indices", "encode_indices"]


@also_on(tensors=lambda: _tensorflow.index_code.encode_indices)
def encode_indices(
    indices: Any, size: Any, *, form: IndexForm = "rice", lowering: str | None = None
) -> Array:
    """Strictly ascending indices as bytes.

    Source: Rice & Plaunt, IEEE Trans. Commun. 1971; Golomb, IEEE Trans. Inf. Theory 1966, for "rice".

    Args:
        indices: Strictly ascending, in ``[0, size)``; shape ``[c]``, int32.
        size: The number of elements the indices point into, below 2^31; integer scalar.
        form: "rice", gaps in the shortest Rice code; "bitpack", each in the bits that the largest needs;
            "bitmap", a bit for every element; "shortest", whichever of these is, and a byte that says so;
            or "gaps", gaps in an adaptive code, which on tensors needs the compiled op.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The code; shape ``[bytes]``, uint8.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``form`` or ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        LoweringError: "gaps" on tensors without the compiled op.
        tf.errors.InvalidArgumentError: When run: the indices do not ascend, or leave ``[0, size)``.
    """
    return kernels.encode_indices(np.asarray(indices, np.int32), int(size), form=form)


@also_on(tensors=lambda: _tensorflow.index_code.decode_indices)
def decode_indices(
    code: Any, count: Any, size: Any, *, form: IndexForm = "rice", lowering: str | None = None
) -> Array:
    """The inverse of `encode_indices`, for untrusted bytes.

    Args:
        code: Shape ``[bytes]``, uint8.
        count: The number of indices in the code; integer scalar.
        size: The number of elements the indices point into, below 2^31; integer scalar.
        form: That of the code.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The indices, strictly ascending, in ``[0, size)``; shape ``[count]``, int32.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``form`` or ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        LoweringError: "gaps" on tensors without the compiled op.
        tf.errors.InvalidArgumentError: When run: the bytes are not what `encode_indices` writes for any
            ``count`` indices below ``size`` (a "shortest" code may be of a form that is not the shortest).
            Memory is asked for only in proportion to the bytes.
    """
    return kernels.decode_indices(np.asarray(code, np.uint8), int(count), int(size), form=form)
