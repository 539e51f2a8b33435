"""`fedplug.ops.symbol_code` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_bytes,
    as_int64,
    require_vectors,
)
from fedplug.ops._tensorflow.reference import symbol_code as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, Scalar

__all__ = ["decode_symbols", "encode_symbols"]


def encode_symbols(packed: Array, count: Scalar, *, bits: Scalar, lowering: str | None = None) -> tf.Tensor:
    packed = as_bytes("packed", packed)
    count = as_int64("count", count)
    require_vectors(packed=packed)
    bits = _checked_bits(bits)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_encode_symbols(packed, count, bits)
    return reference.encode(packed, count, bits)


def decode_symbols(code: Array, count: Scalar, *, bits: Scalar, lowering: str | None = None) -> tf.Tensor:
    code = as_bytes("code", code)
    count = as_int64("count", count)
    require_vectors(code=code)
    bits = _checked_bits(bits)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_decode_symbols(code, count, bits)
    return reference.decode(code, count, bits)


def _checked_bits(bits: Scalar) -> tf.Tensor:
    return as_int64("bits", bits if tf.is_tensor(bits) else whole("bits", bits, 1, 8))
