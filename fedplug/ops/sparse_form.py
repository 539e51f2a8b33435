"""The body of a sparse payload. The layout is specified in csrc/core/sparse_form.h."""

from __future__ import annotations

from typing import Any

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["sparse_body", "split_sparse_body"]


@also_on(tensors=lambda: _tensorflow.sparse_form.sparse_body)
def sparse_body(count: Any, index_code: Array, values: Array, *, lowering: str | None = None) -> Array:
    """The number of entries of a sparse payload, their index code and their values in one buffer.

    Args:
        count: The number of entries, below 2^31; integer scalar.
        index_code: Where they are, uint8 vector.
        values: The bytes of their values, uint8 vector.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        uint8 vector.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        ArgumentError: With NumPy: ``count`` is out of range.
        tf.errors.InvalidArgumentError: With TensorFlow, when run: the same.
    """
    return kernels.sparse_body(int(count), index_code, values)


@also_on(tensors=lambda: _tensorflow.sparse_form.split_sparse_body)
def split_sparse_body(body: Array, size: Any, *, lowering: str | None = None) -> tuple[Any, Array, Array]:
    """The inverse of `sparse_body`, for untrusted bytes.

    Args:
        body: uint8 vector.
        size: Of the tensor the entries are of; integer scalar.
        lowering: As for `sparse_body`.

    Returns:
        The number of entries, in ``[0, size]``, an int or an int32 scalar; the index code; the bytes of the
        values. With NumPy the latter are views of ``body``.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        PayloadError: With NumPy: the numbers cannot be read, are not in their fewest bytes, or do not fit the
            tensor or the body.
        tf.errors.InvalidArgumentError: With TensorFlow, when run: the same.
    """
    return kernels.split_sparse_body(body, int(size))
