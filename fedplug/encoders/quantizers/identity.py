"""Values without compression: the baseline, the encoder of small tensors, and a stage of pipelines."""

from __future__ import annotations

from typing import ClassVar

import fedplug.ops as ops
from fedplug.encoders.base import BodyParts, Encoder, Measured, Payload, State
from fedplug.encoders.stages import Quantizer
from fedplug.ops.types import Array, DType, Scalar, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Identity", "IdentityStage"]

_PROMISES = Capabilities(
    unbiased=True,
    commutes_with_sum=True,
    lossless=True,
    secure_aggregation_safe=True,
    bounded_sensitivity=True,
    sends_every_entry=True,
    fixed_size=True,
    decode_copies=0,
    executes_on=EXECUTIONS,
)
"""All promises but client state."""


class Identity(Encoder, Measured):
    """Sends every element uncompressed: ``itemsize`` bytes each. Takes any numeric or boolean dtype.

    After a sparsifier it sends the selected values uncompressed, as without a quantizer.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("identity").encode(np.int8([1, 2, 3]))
    >>> fedplug.decode(payload)
    array([1, 2, 3], dtype=int8)
    """

    name: ClassVar[str] = "identity"
    wire_id: ClassVar[str] = "identity/1"

    @property
    def capabilities(self) -> Capabilities:
        """All promises but client state."""
        return _PROMISES

    def get_config(self) -> dict[str, object]:
        return {}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Returns the payload ``{"values": x}``, with the shape of ``x``."""
        del round_num
        return {"values": x}, state

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Returns the values unchanged."""
        return ops.ensure_shape(payload["values"], spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """Returns the elements in row-major order, little-endian."""
        del spec
        return ops.to_bytes(payload["values"])

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses a body that is not exactly one tensor of the spec, and values that are not finite."""
        values = IdentityStage().decode(body, ops.num_elements(spec), spec.dtype)
        return {"values": ops.reshape(values, spec.shape)}

    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        """Counts all bytes as uncompressed values."""
        del spec
        return BodyParts(0, ops.size(body), ops.astype(ops.size(body), "float64"))


class IdentityStage(Quantizer):
    """`Identity` as the quantizer of a pipeline, and the default one: the values, little-endian.

    Its wire id is left out of that of a pipeline, and alone it writes the bytes of `Identity`.
    """

    name: ClassVar[str] = "identity"
    wire_id: ClassVar[str] = "identity/1"
    uncompressed: ClassVar[bool] = True

    @property
    def capabilities(self) -> Capabilities:
        """Lossless."""
        return _PROMISES

    def get_config(self) -> dict[str, object]:
        return {}

    def encode(self, values: Array, round_num: Scalar) -> Array:
        del round_num
        return ops.to_bytes(values)

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Refuses another number of bytes, and values that are not finite."""
        if getattr(dtype, "kind", None) == "f" or ops.is_floating(dtype):
            return ops.finite_from_bytes(code, count, dtype)
        data = ops.of_length(code, count * ops.itemsize(dtype), "the bytes of an identity payload")
        return ops.from_bytes(data, dtype)
