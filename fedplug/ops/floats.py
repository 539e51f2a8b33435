"""The wide dtype for arithmetic with 16-bit floats, and conversions between the two.

A 16-bit sum of equal steps stops growing after at most 256 (bfloat16) or 2,048 (float16) steps. State that
accumulates, residuals above all, therefore has the wide dtype.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import fedplug.kernels as kernels
from fedplug.errors import PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.serialization import from_bytes
from fedplug.ops.types import Array, ArraySpec, DType, Spec, ValueForm
from fedplug.ops.value_code import encode_values

__all__ = ["narrowed", "wide_dtype", "wide_spec", "widened"]

_FORMS: dict[np.dtype[np.generic], ValueForm] = {
    np.dtype(np.float16): "float16",
    np.dtype(ml_dtypes.bfloat16): "bfloat16",
}


@also_on(tensors=lambda: _tensorflow.floats.wide_dtype)
def wide_dtype(dtype: DType) -> DType:
    """The dtype for arithmetic with numbers of ``dtype``: float64 for float64, float32 for all others."""
    return np.dtype(np.float64 if np.dtype(dtype) == np.float64 else np.float32)


@also_on(tensors=lambda: _tensorflow.floats.wide_spec)
def wide_spec(spec: Spec) -> Spec:
    """The spec with its `wide_dtype`, which a residual of such tensors has."""
    return ArraySpec(spec.shape, wide_dtype(spec.dtype), spec.name)


@also_on(tensors=lambda: _tensorflow.floats.widened)
def widened(x: Array) -> Array:
    """Converts ``x`` to its `wide_dtype`, exactly."""
    form, size = _FORMS.get(x.dtype), np.size(x)
    if form is not None and size:  # for float16 NumPy is ten times slower
        try:
            code = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
            return kernels.decode_values(code, size, form, dtype=np.float32).reshape(x.shape)
        except PayloadError:  # the kernel refuses NaN and infinity
            pass
    return np.asarray(x).astype(wide_dtype(x.dtype), copy=False)


def narrowed(x: Array, dtype: DType) -> Array:
    """Rounds a vector to ``dtype``, ties to even. An overflow becomes the largest finite number.

    The rounding error ``x - widened(narrowed(x, dtype))`` is exact.

    Args:
        x: Finite values of the `wide_dtype` of ``dtype``.
        dtype: The floating dtype of the result.

    Raises:
        NonFiniteError: An element is NaN or infinite.
    """
    form: Any = dtype.name  # of 16 bits, and named like its form
    return x if x.dtype == dtype else from_bytes(encode_values(x, form), dtype)
