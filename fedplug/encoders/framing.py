"""The container of `fedplug.wire` around an encoder's bytes, inside graphs too.

The header of a tensor under an encoder is a constant of the graph, so that only length and checksum are
computed, and a reader refuses everything that was not made for exactly this tensor and encoder.
"""

from __future__ import annotations

import numpy as np

from fedplug import kernels, ops, wire
from fedplug.errors import PayloadError
from fedplug.ops.dispatch import are_of_tensorflow
from fedplug.ops.types import Array, Spec

__all__ = ["container_bytes", "frame", "header", "unframe"]


def frame(body: Array, wire_id: str, spec: Spec) -> Array:
    """Wraps ``body`` as ``wire.pack(body, wire_id, dtype, shape)`` does; both are uint8 vectors."""
    if are_of_tensorflow([body]):
        return ops.frame(body, header(wire_id, spec))
    return np.frombuffer(wire.pack(body, wire_id, spec.dtype.name, spec.shape), np.uint8)


def unframe(buffer: Array, wire_id: str, spec: Spec) -> Array:
    """The body of a container that was made by `frame` with the same ``wire_id`` and ``spec``.

    Raises:
        PayloadError, tf.errors.InvalidArgumentError: On NumPy arrays, or when the graph runs: the buffer is
            truncated, for another encoder, dtype or shape, or its checksum is wrong.
    """
    if are_of_tensorflow([buffer]):
        return ops.unframe(buffer, header(wire_id, spec))
    found_id, dtype, shape, body = kernels.read_container(buffer)
    if (found_id, dtype, shape) != (wire_id, spec.dtype.name, spec.shape):
        raise PayloadError(
            f"the payload is of {dtype}{list(shape)} under the wire id {found_id!r}; expected "
            f"{spec.dtype.name}{list(spec.shape)} under {wire_id!r}"
        )
    return body


def container_bytes(wire_id: str, spec: Spec) -> int:
    """What a container takes beside its body."""
    return len(wire.pack(b"", wire_id, spec.dtype.name, list(spec.shape)))


def header(wire_id: str, spec: Spec) -> bytes:
    """The container header of such a tensor."""
    return wire.header(wire_id, spec.dtype.name, list(spec.shape))
