"""The container around payloads. docs/wire-format.md specifies the layout."""

from __future__ import annotations

import numpy as np

import fedplug.kernels as kernels
import fedplug.wire as wire
from fedplug.errors import PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["frame", "unframe"]


@also_on(tensors=lambda: _tensorflow.container.frame)
def frame(body: Array, header: bytes, *, lowering: str | None = None) -> Array:
    """Joins header, length, body and checksum in one buffer.

    Args:
        body: uint8 vector.
        header: The bytes before the length of the body, from `fedplug.wire.header`.
        lowering: See `fedplug.ops`.

    Returns:
        The container. uint8 vector.
    """
    return np.frombuffer(kernels.frame(body, header), np.uint8)


@also_on(tensors=lambda: _tensorflow.container.unframe)
def unframe(container: Array, header: bytes, *, lowering: str | None = None) -> Array:
    """Reads the body of a container from untrusted bytes.

    Args:
        container: uint8 vector.
        header: The expected header.
        lowering: See `fedplug.ops`.

    Returns:
        The body. uint8 vector.

    Raises:
        PayloadError: The container is truncated, or its header, length or checksum is wrong.
    """
    wire_id, dtype, shape, body = kernels.unframe(container)
    if wire.header(wire_id, dtype, shape) != header:
        raise PayloadError(
            f"the payload is of {dtype}{list(shape)} under the wire id {wire_id!r}: it was made by "
            "another encoder or for another tensor"
        )
    return body
