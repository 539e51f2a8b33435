"""`fedplug.ops.rotated_code` on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from fedplug.ops._reference import rotated_code as reference
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_bytes,
    as_int64,
    require_floating,
    require_vectors,
    require_whole,
)
from fedplug.ops.lowering import resolve_lowering

__all__ = ["decode_rotated", "encode_rotated", "rotation_block_size"]


_SMALLEST, _LARGEST, _PADDING = 2**7, 2**20, 32  # as in fedplug.ops.rotated_code


def rotation_block_size(count: tf.Tensor) -> tf.Tensor:
    require_whole(count=count)
    sizes = tf.constant([2**i for i in range(_LARGEST.bit_length())], count.dtype)
    holding_all = tf.reduce_min(tf.where(sizes >= count, sizes, _LARGEST))
    cheap = tf.reduce_max(tf.where(-count % sizes <= count // _PADDING, sizes, 1))
    return tf.minimum(tf.maximum(cheap, _SMALLEST), holding_all)


def encode_rotated(
    values: Any, key: Any, levels: Sequence[float], block_size: Any, *, lowering: str | None = None
) -> tf.Tensor:
    values = tf.convert_to_tensor(values)
    require_floating(values=values)
    require_vectors(values=values)
    key, block_size = as_int64("key", key), as_int64("block_size", block_size)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_encode_rotated(values, key, list(levels), block_size)
    return reference.encode(values, key, levels, block_size)


def decode_rotated(
    code: Any,
    count: Any,
    key: Any,
    levels: Sequence[float],
    block_size: Any,
    *,
    dtype: Any,
    lowering: str | None = None,
) -> tf.Tensor:
    code = as_bytes("code", code)
    require_vectors(code=code)
    count, key, block_size = (
        as_int64("count", count),
        as_int64("key", key),
        as_int64("block_size", block_size),
    )
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_decode_rotated(code, count, key, list(levels), block_size, T=dtype)
    return reference.decode(code, count, key, levels, block_size, tf.as_dtype(dtype))
