"""`fedplug.ops.serialization` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_bytes, require_vectors
from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.reference import checksum as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, DType

__all__ = [
    "crc32",
    "from_bytes",
    "to_bytes",
]


def to_bytes(x: tf.Tensor) -> tf.Tensor:
    if x.dtype == tf.bool:
        return tf.reshape(tf.cast(x, tf.uint8), [-1])
    return tf.reshape(tf.bitcast(tf.reshape(x, [-1]), tf.uint8), [-1])


def from_bytes(data: tf.Tensor, dtype: DType) -> tf.Tensor:
    dtype = tf.as_dtype(dtype)
    if dtype == tf.bool:
        with require(tf.reduce_all(data <= 1), "a bool on the wire is neither 0 nor 1"):
            return tf.cast(data, tf.bool)
    if dtype.size == 1:
        return tf.bitcast(data, dtype)
    with require(
        tf.size(data) % dtype.size == 0, f"the bytes on the wire are not whole {dtype.name} numbers"
    ):
        return tf.bitcast(tf.reshape(data, [-1, dtype.size]), dtype)


def crc32(data: Array, *, lowering: str | None = None) -> tf.Tensor:
    data = as_bytes("data", data)
    require_vectors(data=data)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_crc32(data)
    return reference.crc32(data)
