"""`fedplug.ops.checksum` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_bytes, require_vectors
from fedplug.ops._tensorflow.reference import checksum as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array

__all__ = ["crc32"]


def crc32(data: Array, *, lowering: str | None = None) -> tf.Tensor:
    data = as_bytes("data", data)
    require_vectors(data=data)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_crc32(data)
    return reference.crc32(data)
