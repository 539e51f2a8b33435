"""Converts named tensors of known dtypes to bytes and back, for encoders without a wire form.

Both sides know the layout: a `tf.TensorSpec` for each name, with at most one unknown dimension. The bytes
have, for each name in the layout's order, the unknown dimension (if any) as uint32, then the elements, row by
row, little-endian.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import tensorflow as tf

import fedplug.ops as ops
from fedplug.errors import ConfigError
from fedplug.ops import require

__all__ = ["check_layout", "from_bytes", "to_bytes"]

Layout = Mapping[str, tf.TensorSpec]

_DIMENSION_BYTES = 4
_LARGEST_DIMENSION = 2**31 - 1


def check_layout(layout: Layout, what: str) -> None:
    """Refuses a layout that has no wire form.

    Raises:
        ConfigError: A tensor is not of numbers or bools, or more than one of its dimensions is unknown.
    """
    for key, spec in layout.items():
        if not (spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_bool):
            raise ConfigError(f"{what}: {key!r} is of {spec.dtype.name}, which cannot be sent")
        if spec.dtype.is_quantized or spec.shape.rank is None or spec.shape.as_list().count(None) > 1:
            raise ConfigError(
                f"{what}: {key!r} is {spec.dtype.name} {spec.shape}; what is sent has at most one "
                "dimension that is not known beforehand"
            )


def to_bytes(tensors: Mapping[str, tf.Tensor], layout: Layout) -> tf.Tensor:
    """Returns a uint8 vector. Tensors outside the layout are left out."""
    pieces = [tf.zeros([0], tf.uint8)]
    for key, spec in layout.items():
        if not spec.shape.is_fully_defined():
            unknown = spec.shape.as_list().index(None)
            pieces.append(ops.to_bytes(tf.shape(tensors[key])[unknown]))
        pieces.append(ops.to_bytes(tensors[key]))
    return tf.concat(pieces, axis=0)


def from_bytes(body: tf.Tensor, layout: Layout, what: str) -> dict[str, tf.Tensor]:
    """Inverts `to_bytes`, for untrusted bytes.

    Raises:
        tf.errors.InvalidArgumentError: The number of bytes does not fit the layout and its sizes, a bool is
            neither 0 nor 1, or a floating-point number is not finite.
    """
    tensors = {}
    for key, spec in layout.items():
        known = spec.shape.as_list()
        row = math.prod(d for d in known if d is not None) * spec.dtype.size
        unknown = tf.constant(1)
        if None in known:
            unknown, body = _dimension(body, what)
        with require(
            unknown <= tf.size(body) // row if row else tf.constant(True),
            f"a {what} payload ends within {key!r}",
        ):
            size = tf.identity(unknown * row)
        values = ops.from_bytes(body[:size], spec.dtype)
        if spec.dtype.is_floating:
            with require(tf.reduce_all(tf.math.is_finite(values)), f"{key!r} holds a NaN or an infinity"):
                values = tf.identity(values)
        shape = tf.stack([unknown if d is None else d for d in known]) if known else []
        tensors[key] = tf.ensure_shape(tf.reshape(values, shape), spec.shape)
        body = body[size:]
    with require(tf.size(body) == 0, f"a {what} payload is longer than its tensors"):
        return {key: tf.identity(tensor) for key, tensor in tensors.items()}


def _dimension(body: tf.Tensor, what: str) -> tuple[tf.Tensor, tf.Tensor]:
    with require(tf.size(body) >= _DIMENSION_BYTES, f"a {what} payload is too short to hold its sizes"):
        (dimension,) = tf.unstack(ops.from_bytes(body[:_DIMENSION_BYTES], tf.uint32), num=1)
    with require(dimension <= _LARGEST_DIMENSION, f"a size in a {what} payload is too large"):
        return tf.cast(dimension, tf.int32), body[_DIMENSION_BYTES:]
