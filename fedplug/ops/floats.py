"""The dtype in which numbers of a narrower one are computed with."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["wide_dtype", "widened"]


def wide_dtype(dtype: tf.DType) -> tf.DType:
    """The dtype for arithmetic with numbers of ``dtype``: float64 for float64, float32 for all others."""
    return tf.float64 if dtype == tf.float64 else tf.float32


def widened(x: tf.Tensor) -> tf.Tensor:
    """``x`` in its `wide_dtype`."""
    return tf.cast(x, wide_dtype(x.dtype))
