"""The containers of `fedplug.wire` around encoders' bytes, and the plan that writes them.

The header of a tensor and its encoder is a constant of a graph, which computes only length and checksum.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.errors import NonFiniteError
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.types import Array, ArraySpec, Scalar, Spec

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["NOT_FINITE", "Buffer", "Plan", "container_bytes", "frame", "header_of", "unframe"]


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


Buffer: TypeAlias = "bytes | Array"
"""A container: bytes of an array, a uint8 vector of a tensor."""

NOT_FINITE = "the array holds a NaN or an infinity, which no receiver would accept"


class Plan:
    """Encodes the tensors of a model that share an encoder, by the methods of its contract.

    A model has one plan for each of its encoders, and values that depend on the specs alone are computed
    once. The plan of a pipeline on NumPy arrays is a `fedplug.encoders.pipeline.kernel_plan.KernelPlan`.

    Attributes:
        encoder: The encoder.
        specs: The specs of the tensors.
        places: Their positions in the model.
        headers: Their container headers.
    """

    def __init__(self, encoder: Encoder, specs: Sequence[Spec], places: Sequence[int] = (0,)) -> None:
        self.encoder = encoder
        self.specs = list(specs)
        self.places = list(places)
        self.headers = [header_of(encoder.wire_id, spec) for spec in specs]

    def adjusted(self, encoder: Encoder) -> Self:
        """Returns the plan with its encoder as rate control adjusts it in a round."""
        other = copy.copy(self)
        other.encoder = encoder
        return other

    def encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> tuple[Sequence[Buffer], Sequence[State]]:
        """Returns the containers of the tensors, and their next states.

        Args:
            xs: The tensors, of the shapes and dtypes of the specs.
            states: A state for each tensor.
            round_num: The round number, as for `Encoder.encode`.

        Returns:
            The containers, bytes for arrays and uint8 vectors in a graph, and the next states.

        Raises:
            ArgumentError: A tensor has another shape than its spec.
            NonFiniteError: A value that would be sent uncompressed is NaN or infinite.
        """
        xs = [ops.ensure_shape(x, spec.shape) for x, spec in zip(xs, self.specs, strict=True)]
        with sums_may_overflow():
            encoded = self.encoder.grouped_encode(xs, states, round_num)
        payloads, next_states = zip(*encoded, strict=True)
        each = zip(payloads, self.specs, self.headers, strict=True)
        return [_framed(self.encoder, *payload_spec_header) for payload_spec_header in each], next_states


def _framed(encoder: Encoder, payload: Payload, spec: Spec, header: bytes) -> Buffer:
    if not isinstance(spec, ArraySpec):
        return ops.frame(encoder.to_wire(payload, spec), header)
    values = payload.get("values")
    if values is not None and ops.is_floating(values.dtype) and not kernels.all_finite(values):
        raise NonFiniteError(NOT_FINITE)
    return kernels.frame(encoder.to_wire(payload, spec), header)
