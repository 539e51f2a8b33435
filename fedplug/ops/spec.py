"""What is known of an array before it is there: shape, dtype, perhaps a name."""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # also teaches NumPy the name bfloat16
import numpy as np

from fedplug.ops._dispatch import DType, also_on_tensors

__all__ = [
    "ArraySpec",
    "dtype_for",
    "has_known_shape",
    "is_floating",
    "itemsize",
    "largest_finite",
    "num_elements",
    "spec_of",
]


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class ArraySpec:
    """Of a NumPy array what `tf.TensorSpec` is of a tensor.

    Attributes:
        shape: All dimensions.
        dtype: Anything NumPy takes for a dtype, and "bfloat16".
        name: Of a model's tensor, where rules go by names.
    """

    shape: tuple[int, ...]
    dtype: Any
    name: str | None = None

    def __post_init__(self) -> None:
        if type(self.shape) is not tuple:
            object.__setattr__(self, "shape", tuple(map(int, self.shape)))
        if not isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", np.dtype(self.dtype))


def dtype_for(executes_on: Collection[str], name: str) -> DType:
    """A dtype for what executes on NumPy arrays, among others, or only in TensorFlow."""
    if "numpy" in executes_on:
        return np.dtype(name)
    return importlib.import_module("fedplug.ops._tensorflow.spec").dtype(name)


@also_on_tensors
def has_known_shape(spec: Any) -> bool:
    """Whether all dimensions are known; those of NumPy arrays are."""
    del spec
    return True


def num_elements(x: Any) -> int:
    """How many elements an array or spec has whose shape is fully known; a Python int, in graphs too."""
    return int(math.prod(x.shape))


@also_on_tensors
def spec_of(x: Any) -> Any:
    """Shape and dtype of an array: an `ArraySpec`, of a tensor a `tf.TensorSpec`."""
    return ArraySpec(x.shape, x.dtype)


@also_on_tensors
def itemsize(dtype: Any) -> int:
    """Bytes of an element."""
    return int(np.dtype(dtype).itemsize)


@also_on_tensors
def is_floating(dtype: Any) -> bool:
    """Whether these are floating-point numbers, of whatever width."""
    dtype = np.dtype(dtype)
    return bool(dtype.kind == "f" or dtype == _BFLOAT16)


def largest_finite(dtype: Any) -> float:
    """The largest finite number of a floating dtype of NumPy."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
