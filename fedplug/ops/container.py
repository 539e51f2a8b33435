"""The container around payloads. The layout is specified in csrc/core/container.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels, wire
from fedplug.errors import PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["frame", "unframe"]


@also_on(tensors=lambda: _tensorflow.container.frame)
def frame(body: Any, header: bytes, *, lowering: str | None = None) -> Array:
    """Header, length, body and checksum in one buffer.

    Args:
        body: uint8 vector.
        header: What comes before the body's length, from `fedplug.wire.header`.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        uint8 vector.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
    """
    return np.frombuffer(kernels.frame(body, header), np.uint8)


@also_on(tensors=lambda: _tensorflow.container.unframe)
def unframe(container: Any, header: bytes, *, lowering: str | None = None) -> Array:
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
    wire_id, dtype, shape, body = kernels.unpack_container(container)
    if wire.header(wire_id, dtype, shape) != header:
        raise PayloadError(
            "the header of a payload is wrong: it was made by another encoder or for another tensor"
        )
    return np.frombuffer(body, np.uint8)
