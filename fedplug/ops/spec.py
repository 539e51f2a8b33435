"""Shapes and dtypes of arrays, which are known before the arrays are."""

from __future__ import annotations

import math
from collections.abc import Collection

import ml_dtypes  # also registers bfloat16 with NumPy
import numpy as np
from numpy.typing import DTypeLike

from fedplug.ops import _tensorflow
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array, ArraySpec, DType, Spec

__all__ = [
    "dtype_for",
    "has_known_shape",
    "is_floating",
    "itemsize",
    "largest_finite",
    "num_elements",
    "spec_of",
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
