"""`fedplug.ops.value_code` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.kernels.arguments import real, whole
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_bytes,
    as_int64,
    refuse_without_op,
    require_floating,
    require_vectors,
)
from fedplug.ops._tensorflow.reference import value_code as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, DType, Scalar, ValueForm

__all__ = ["decode_values", "encode_values"]


def encode_values(
    values: Array,
    form: ValueForm,
    *,
    bits: Scalar = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
    lowering: str | None = None,
) -> tf.Tensor:
    values = tf.convert_to_tensor(values)
    require_floating(values=values)
    require_vectors(values=values)
    seed, bits = as_int64("seed", seed), as_int64("bits", bits)
    block_size, relative = whole("block_size", block_size), real("relative", relative)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_encode_values(
            values, seed, bits, form=form, block_size=block_size, relative=relative
        )
    _require_reference(form)
    return reference.encode(values, seed, bits, form, block_size)


def decode_values(
    code: Array,
    count: Scalar,
    form: ValueForm,
    *,
    dtype: DType,
    bits: Scalar = 8,
    block_size: int = 256,
    relative: float = 0.01,
    lowering: str | None = None,
) -> tf.Tensor:
    code = as_bytes("code", code)
    require_vectors(code=code)
    count, bits = as_int64("count", count), as_int64("bits", bits)
    block_size, relative = whole("block_size", block_size), real("relative", relative)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_decode_values(
            code, count, bits, T=dtype, form=form, block_size=block_size, relative=relative
        )
    _require_reference(form)
    return reference.decode(code, count, bits, form, tf.as_dtype(dtype), block_size)


def _require_reference(form: ValueForm) -> None:
    if form in ("codebook", "bounded"):
        refuse_without_op("quantizer", form, instead="bfp")
