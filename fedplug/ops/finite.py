"""Checks for NaN and infinity, in arrays and in untrusted bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

import fedplug.kernels as kernels
from fedplug.errors import PayloadError
from fedplug.kernels.arguments import whole
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array

__all__ = ["all_finite", "finite_from_bytes"]


@also_on(tensors=lambda: _tensorflow.finite.all_finite)
def all_finite(xs: Array | list[Array]) -> Array | bool:
    """Whether all elements of an array, or of all arrays of a non-empty list, are finite."""
    arrays = xs if isinstance(xs, list) else [xs]
    return all(kernels.all_finite(np.asarray(x)) for x in arrays)  # x may be a NumPy scalar


@also_on(tensors=lambda: _tensorflow.finite.finite_from_bytes)
def finite_from_bytes(data: Array, count: Array | int, dtype: DTypeLike) -> Array:
    """Reads floats from untrusted bytes, as `from_bytes` does.

    Args:
        data: uint8 vector.
        count: Number of values. Integer scalar.
        dtype: The floating dtype of the values.

    Returns:
        The finite values. ``[count]``.

    Raises:
        PayloadError: The number of bytes is wrong, or a value is NaN or infinite.
    """
    count, dtype = count if type(count) is int else whole("count", count), np.dtype(dtype)
    if len(data) != count * dtype.itemsize:
        whole("count", count)  # refuses more than 64 bits
        raise PayloadError(
            f"the bytes of raw values have the wrong length, {len(data)}; there must be "
            f"{count * dtype.itemsize}"
        )
    return kernels.finite_from_bytes(data, dtype, take_result(count, dtype))
