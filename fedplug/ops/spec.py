"""Shapes and dtypes of arrays, which are known before the arrays are, and the wide dtype.

Arithmetic with 16-bit floats has the wide dtype: a 16-bit sum of equal steps stops growing after at most 256
(bfloat16) or 2,048 (float16) steps. State that accumulates, residuals above all, therefore has it too.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import ml_dtypes  # also registers bfloat16 with NumPy
import numpy as np
from numpy.typing import DTypeLike

import fedplug.kernels as kernels
from fedplug.errors import PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.dispatch import also_on
from fedplug.ops.serialization import from_bytes
from fedplug.ops.types import Array, ArraySpec, DType, Spec, ValueForm
from fedplug.ops.value_code import encode_values

__all__ = [
    "has_known_shape",
    "is_floating",
    "itemsize",
    "narrowed",
    "num_elements",
    "spec_of",
    "wide_dtype",
    "wide_spec",
    "widened",
]

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def dtype_for(executes_on: Collection[str], name: str) -> DType:
    """Returns a dtype of NumPy if ``executes_on`` contains "numpy", and else a dtype of TensorFlow."""
    if "numpy" in executes_on:
        return np.dtype(name)
    found: DType = _tensorflow.spec.dtype(name)
    return found


@also_on(tensors=lambda: _tensorflow.spec.has_known_shape)
def has_known_shape(spec: Spec) -> bool:
    """Whether all dimensions of a spec are known. Always True for an `ArraySpec`."""
    del spec
    return True


def num_elements(x: Array | Spec | DeviceArray) -> int:
    """The number of elements of an array or spec with a known shape. An int, also in graphs."""
    return int(math.prod(x.shape))


@also_on(tensors=lambda: _tensorflow.spec.spec_of)
def spec_of(x: Array) -> Spec:
    """The shape and dtype of an array: an `ArraySpec`, or a `tf.TensorSpec` of a tensor."""
    return ArraySpec(x.shape, x.dtype)


@also_on(tensors=lambda: _tensorflow.spec.itemsize)
def itemsize(dtype: DType) -> int:
    """The number of bytes of an element."""
    return int(np.dtype(dtype).itemsize)


@also_on(tensors=lambda: _tensorflow.spec.is_floating)
def is_floating(dtype: DType) -> bool:
    """Whether this is a floating-point dtype."""
    dtype = np.dtype(dtype)
    return bool(dtype.kind == "f" or dtype == _BFLOAT16)


def largest_finite(dtype: DTypeLike) -> float:
    """The largest finite number of a NumPy floating dtype."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


_FORMS: dict[np.dtype[np.generic], ValueForm] = {
    np.dtype(np.float16): "float16",
    np.dtype(ml_dtypes.bfloat16): "bfloat16",
}


@also_on(tensors=lambda: _tensorflow.spec.wide_dtype)
def wide_dtype(dtype: DType) -> DType:
    """The dtype for arithmetic with numbers of ``dtype``: float64 for float64, float32 for all others."""
    return np.dtype(np.float64 if np.dtype(dtype) == np.float64 else np.float32)


@also_on(tensors=lambda: _tensorflow.spec.wide_spec)
def wide_spec(spec: Spec) -> Spec:
    """The spec with its `wide_dtype`, which a residual of such tensors has."""
    return ArraySpec(spec.shape, wide_dtype(spec.dtype), spec.name)


@also_on(tensors=lambda: _tensorflow.spec.widened)
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
