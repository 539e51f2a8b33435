"""Whether floats are numbers: those at hand, and those that come as bytes from nobody knows where."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.errors import PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array

__all__ = ["all_finite", "finite_from_bytes"]


@also_on(tensors=lambda: _tensorflow.finite.all_finite)
def all_finite(xs: Array | list[Array]) -> Array:
    """Whether no element is NaN or infinite: of an array, or of all arrays of a list of at least one."""
    xs = xs if isinstance(xs, list) else [xs]
    return all(kernels.all_finite(np.asarray(x)) for x in xs)  # of one element, NumPy has scalars


@also_on(tensors=lambda: _tensorflow.finite.finite_from_bytes)
def finite_from_bytes(data: Array, count: Any, dtype: Any) -> Array:
    """What `from_bytes` gives, for untrusted bytes that must be so many floats.

    Args:
        data: uint8 vector.
        count: How many values there must be; integer scalar.
        dtype: Theirs, a floating one.

    Returns:
        The values, finite; shape ``[count]``.

    Raises:
        PayloadError: There is another number of bytes, or a value is NaN or infinite.
        tf.errors.InvalidArgumentError: With TensorFlow, when run: the same.
    """
    dtype = np.dtype(dtype)
    if data.size != count * dtype.itemsize:
        raise PayloadError(
            f"the bytes of raw values have the wrong length, {data.size}; there must be "
            f"{count * dtype.itemsize}"
        )
    return kernels.finite_from_bytes(data, dtype, out=take_result(int(count), dtype))
