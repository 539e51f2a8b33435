"""The tensors encoders are tried with: every kind of awkward input, the same ones every time.

Knows nothing of encoders.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

__all__ = ["DTYPES", "KINDS", "SHAPES", "denormals", "name_of", "tensor"]

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (16,), (3, 5), (2, 0, 3), (4099,))
"""A scalar, nothing, one element, odd and even, more than one axis, and more than one block of anything."""

DTYPES: tuple[tf.DType, ...] = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
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


def tensor(kind: str, spec: tf.TensorSpec, seed: int = 0) -> tf.Tensor:
    """A finite tensor of one of `KINDS`; a new one for every call, equal for equal arguments."""
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    return tf.cast(tf.constant(_MAKE[kind](rng, tuple(spec.shape), float(spec.dtype.max))), spec.dtype)


def denormals(spec: tf.TensorSpec) -> tf.Tensor:
    """Numbers too small for the exponent of the dtype, of both signs."""
    pattern = np.arange(1, spec.shape.num_elements() + 1, dtype=np.int64)
    unsigned = tf.as_dtype(f"uint{8 * spec.dtype.size}")
    signs = (pattern % 2) << (8 * spec.dtype.size - 1)
    bits = tf.constant((pattern % 100 + signs).astype(unsigned.as_numpy_dtype))
    return tf.reshape(tf.bitcast(bits, spec.dtype), spec.shape)


def name_of(spec: tf.TensorSpec) -> str:
    """For messages: ``float32[3, 5]``."""
    return f"{spec.dtype.name}{spec.shape.as_list()}"
