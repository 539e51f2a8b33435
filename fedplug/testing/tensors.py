"""The test tensors for encoders: all kinds of unusual input, deterministic."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from fedplug.ops import is_floating, num_elements
from fedplug.ops.types import Array, Spec

__all__ = ["DTYPES", "KINDS", "SHAPES", "denormals", "dtype_name", "name_of", "numpy_dtype", "tensor"]

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (16,), (3, 5), (2, 0, 3), (4099,))
"""A scalar, nothing, one element, odd and even, more than one axis, and more than one block of anything."""

DTYPES: tuple[str, ...] = ("float32", "float64", "float16", "bfloat16")
"""All floating-point dtypes a model may have: a process hands each of them to its encoder."""

_Generator = np.random.Generator
_Doubles = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _spike(rng: _Generator, shape: tuple[int, ...], largest: float) -> _Doubles:
    x = rng.standard_normal(shape) * 0.1
    if x.size:
        x.reshape(-1)[x.size // 2] = 1e3
    return x


_MAKE: Mapping[str, Callable[[_Generator, tuple[int, ...], float], _Doubles]] = {
    "normal": lambda rng, shape, largest: rng.standard_normal(shape),
    "zeros": lambda rng, shape, largest: np.zeros(shape),
    "negative zeros": lambda rng, shape, largest: np.full(shape, -0.0),
    "ties": lambda rng, shape, largest: rng.integers(-1, 2, shape).astype(np.float64),
    "all equal": lambda rng, shape, largest: np.full(shape, -0.75),
    "spike": _spike,
    "huge": lambda rng, shape, largest: rng.choice([-largest / 2, largest / 4], shape),
}

KINDS = tuple(_MAKE)


def tensor(kind: str, spec: Spec, seed: int = 0) -> NDArray[np.generic]:
    """Returns a new finite tensor of one of `KINDS`, equal for equal arguments."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    dtype = numpy_dtype(spec)
    largest = float(ml_dtypes.finfo(dtype).max) if is_floating(dtype) else 1.0  # type: ignore[no-untyped-call]
    return np.asarray(_MAKE[kind](rng, tuple(spec.shape), largest)).astype(dtype)


def denormals(spec: Spec) -> NDArray[np.generic]:
    """Returns denormal numbers of both signs."""
    pattern = np.arange(1, num_elements(spec) + 1, dtype=np.uint64)
    dtype = numpy_dtype(spec)
    signs = (pattern % 2) << np.uint64(8 * dtype.itemsize - 1)
    bits = (pattern % 100 + signs).astype(f"uint{8 * dtype.itemsize}")
    return bits.view(dtype).reshape(tuple(spec.shape))


def name_of(spec: Spec | Array) -> str:
    """Returns a text for messages, such as ``float32[3, 5]``."""
    return f"{spec.dtype.name}{list(spec.shape)}"


def dtype_name(dtype: Any) -> str:
    """Returns the name of a dtype of NumPy or TensorFlow."""
    return str(getattr(dtype, "name", None) or np.dtype(dtype).name)


def numpy_dtype(spec: Spec) -> np.dtype[np.generic]:
    """Returns the NumPy dtype of a spec, which may be TensorFlow's."""
    return np.dtype(spec.dtype.name)
