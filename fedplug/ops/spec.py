"""What is known of an array before it is there: shape, dtype, perhaps a name."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import ml_dtypes  # also teaches NumPy the name bfloat16
import numpy as np

from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import ArraySpec, DType

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
    """A dtype for what executes on NumPy arrays, among others, or only in TensorFlow."""
    if "numpy" in executes_on:
        return np.dtype(name)
    return _tensorflow.spec.dtype(name)


@also_on(tensors=lambda: _tensorflow.spec.has_known_shape)
def has_known_shape(spec: Any) -> bool:
    """Whether all dimensions are known; those of NumPy arrays are."""
    del spec
    return True


def num_elements(x: Any) -> int:
    """How many elements an array or spec has whose shape is fully known; a Python int, in graphs too."""
    return int(math.prod(x.shape))


@also_on(tensors=lambda: _tensorflow.spec.spec_of)
def spec_of(x: Any) -> Any:
    """Shape and dtype of an array: an `ArraySpec`, of a tensor a `tf.TensorSpec`."""
    return ArraySpec(x.shape, x.dtype)


@also_on(tensors=lambda: _tensorflow.spec.itemsize)
def itemsize(dtype: Any) -> int:
    """Bytes of an element."""
    return int(np.dtype(dtype).itemsize)


@also_on(tensors=lambda: _tensorflow.spec.is_floating)
def is_floating(dtype: Any) -> bool:
    """Whether these are floating-point numbers, of whatever width."""
    dtype = np.dtype(dtype)
    return bool(dtype.kind == "f" or dtype == _BFLOAT16)


def largest_finite(dtype: Any) -> float:
    """The largest finite number of a floating dtype of NumPy."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
