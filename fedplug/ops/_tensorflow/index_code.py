"""`fedplug.ops.index_code` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    as_bytes,
    as_indices,
    as_int64,
    refuse_without_op,
    require_form,
    require_vectors,
)
from fedplug.ops._tensorflow.reference import index_code as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, IndexForm, Scalar

__all__ = [
    "decode_indices",
    "draw_indices",
    "encode_indices",
]


def encode_indices(
    indices: Array, size: Scalar, *, form: IndexForm = "rice", lowering: str | None = None
) -> tf.Tensor:
    indices = as_indices("indices", indices)
    size = as_int64("size", size)
    require_vectors(indices=indices)
    require_form("index code", form, IndexForm)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_encode_indices(indices, size, form=form)
    if form == "gaps":
        refuse_without_op("index coder", form, instead="rice")
    return reference.encode(indices, size)


def decode_indices(
    code: Array, count: Scalar, size: Scalar, *, form: IndexForm = "rice", lowering: str | None = None
) -> tf.Tensor:
    code = as_bytes("code", code)
    count = as_int64("count", count)
    size = as_int64("size", size)
    require_vectors(code=code)
    require_form("index code", form, IndexForm)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_decode_indices(code, count, size, form=form)
    if form == "gaps":
        refuse_without_op("index coder", form, instead="rice")
    return reference.decode(code, count, size)


def draw_indices(seed: Scalar, count: Scalar, size: Scalar, *, lowering: str | None = None) -> tf.Tensor:
    seed, count, size = as_int64("seed", seed), as_int64("count", count), as_int64("size", size)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_draw_indices(seed, count, size)
    return reference.draw_indices(seed, count, size)
