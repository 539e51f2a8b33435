"""`fedplug.ops.container` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_bytes, require_vectors
from fedplug.ops._tensorflow.reference import container as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array

__all__ = ["frame", "unframe"]


def frame(body: Array, header: bytes, *, lowering: str | None = None) -> tf.Tensor:
    body = as_bytes("body", body)
    require_vectors(body=body)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_frame(body, header=header)
    return reference.frame(body, _constant(header))


def unframe(container: Array, header: bytes, *, lowering: str | None = None) -> tf.Tensor:
    container = as_bytes("container", container)
    require_vectors(container=container)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_unframe(container, header=header)
    return reference.unframe(container, _constant(header))


def _constant(header: bytes) -> tf.Tensor:
    return tf.constant(list(header), tf.uint8)
