"""The container of `fedplug.wire` around an encoder's bytes, on NumPy arrays and inside graphs.

The header of a tensor and its encoder is a constant of the graph, which computes only length and checksum.
"""

from __future__ import annotations

import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.ops.types import Array, Spec

__all__ = [
    "container_bytes",
    "frame",
    "header_of",
    "unframe",
]


def header_of(wire_id: str, spec: Spec) -> bytes:
    """Returns the header of all payloads of one tensor under one encoder."""
    return wire.header(wire_id, spec.dtype.name, list(spec.shape))


def frame(body: Array, wire_id: str, spec: Spec) -> Array:
    """Returns the container of an encoder's bytes. Both are uint8 vectors."""
    return ops.frame(body, header_of(wire_id, spec))


def unframe(buffer: Array, wire_id: str, spec: Spec) -> Array:
    """Returns the body of a container that `frame` wrote with the same ``wire_id`` and ``spec``.

    Raises:
        PayloadError, tf.errors.InvalidArgumentError: On NumPy arrays, or when the graph runs: the buffer is
            truncated, for another encoder, dtype or shape, or its checksum is wrong.
    """
    return ops.unframe(buffer, header_of(wire_id, spec))


def container_bytes(wire_id: str, spec: Spec) -> int:
    """Returns the size of a container without its body."""
    return len(kernels.frame(b"", header_of(wire_id, spec)))
