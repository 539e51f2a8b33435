"""The container around payloads. The layout is specified in csrc/core/container.h."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._arguments import require_vectors
from fedplug.ops._reference import container as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["frame", "unframe"]

tf.no_gradient("Fedplug>Frame")
tf.no_gradient("Fedplug>Unframe")


def frame(body: Any, header: bytes, *, lowering: str | None = None) -> tf.Tensor:
    """Header, length, body and checksum in one buffer.

    Args:
        body: uint8 vector.
        header: What comes before the body's length, from `fedplug.wire.header`.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        uint8 vector.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
    """
    body = tf.convert_to_tensor(body, tf.uint8)
    require_vectors(body=body)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_frame(body, header=header)
    return reference.frame(body, header)


def unframe(container: Any, header: bytes, *, lowering: str | None = None) -> tf.Tensor:
    """The body of a container, for untrusted bytes.

    Args:
        container: uint8 vector.
        header: The one the container must have.
        lowering: As for `frame`.

    Returns:
        uint8 vector.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the container is not whole, or has another header, length or
            checksum.
    """
    container = tf.convert_to_tensor(container, tf.uint8)
    require_vectors(container=container)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_unframe(container, header=header)
    return reference.unframe(container, header)
