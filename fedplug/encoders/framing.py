"""The container of `fedplug.wire` around an encoder's bytes: whole on NumPy arrays, and inside graphs.

The header of a tensor and its encoder is a constant of the graph, which computes only length and checksum.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.optional import ContainerEncoder
from fedplug.errors import NonFiniteError
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.types import Array, ArraySpec, Spec

__all__ = [
    "container_bytes",
    "encode_by_contract",
    "encode_containers",
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


def encode_containers(
    encoder: Encoder,
    xs: Sequence[Array],
    states: Sequence[State],
    round_num: int,
    specs: Sequence[ArraySpec],
    headers: Sequence[bytes],
) -> list[tuple[bytes, State]]:
    """Encodes NumPy or device arrays into containers, in the fastest way that the encoder has.

    Args:
        encoder: The encoder that the arrays share.
        xs: The arrays, one or more.
        states: A state for each array.
        round_num: The round number.
        specs: The spec of each array.
        headers: The container header of each array.

    Returns:
        The container and the next state of each array.

    Raises:
        NonFiniteError: A value that would be sent uncompressed is NaN or infinite.
    """
    if not _has_containers(type(encoder)):
        return encode_by_contract(encoder, xs, states, round_num, specs, headers)
    found: list[tuple[bytes, State]] = encoder.encode_containers(xs, states, round_num, specs, headers)  # type: ignore[attr-defined]
    return found


@functools.cache
def _has_containers(kind: type[Encoder]) -> bool:
    return issubclass(kind, ContainerEncoder)


def encode_by_contract(
    encoder: Encoder,
    xs: Sequence[Array],
    states: Sequence[State],
    round_num: int,
    specs: Sequence[ArraySpec],
    headers: Sequence[bytes],
) -> list[tuple[bytes, State]]:
    """Encodes into containers by `Encoder.grouped_encode` and `Encoder.to_wire`, which every encoder has."""
    with sums_may_overflow():
        encoded = encoder.grouped_encode(xs, states, round_num)
    return [
        (_framed(encoder, payload, spec, header), next_state)
        for (payload, next_state), spec, header in zip(encoded, specs, headers, strict=True)
    ]


def _framed(encoder: Encoder, payload: Payload, spec: ArraySpec, header: bytes) -> bytes:
    values = payload.get("values")
    if values is not None and ops.is_floating(values.dtype) and not kernels.all_finite(values):
        raise NonFiniteError("the array holds a NaN or an infinity, which no receiver would accept")
    return kernels.frame(encoder.to_wire(payload, spec), header)


def container_bytes(wire_id: str, spec: Spec) -> int:
    """Returns the size of a container without its body."""
    return len(kernels.frame(b"", header_of(wire_id, spec)))
