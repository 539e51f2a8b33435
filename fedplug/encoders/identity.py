"""The encoder that changes nothing: the baseline, and what small tensors are sent with."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from fedplug import ops
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.registry.specs import Capabilities

__all__ = ["Identity"]


class Identity(Encoder):
    """Sends every element uncompressed: ``itemsize`` bytes each. Takes any numeric or boolean dtype."""

    name: ClassVar[str] = "identity"
    wire_id: ClassVar[str] = "identity/1"

    @property
    def capabilities(self) -> Capabilities:
        """Everything but client state."""
        return Capabilities(
            unbiased=True,
            commutes_with_sum=True,
            lossless=True,
            secure_aggregation_safe=True,
            bounded_sensitivity=True,
            sends_every_entry=True,
        )

    def get_config(self) -> dict[str, Any]:
        """No arguments."""
        return {}

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """The payload is ``{"values": x}``, with the shape of ``x``."""
        del round_num
        return {"values": x}, state

    def decode(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """The values, unchanged."""
        return tf.ensure_shape(payload["values"], spec.shape)

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """The elements in row-major order, little-endian."""
        del spec
        return ops.to_bytes(payload["values"])

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """Refuses a body that is not exactly one tensor of the spec, and values that are not finite."""
        expected = spec.shape.num_elements() * spec.dtype.size
        message = (
            f"an identity payload for a {spec.dtype.name} tensor of shape {spec.shape} takes {expected} bytes"
        )
        with ops.require(tf.size(body) == expected, message):
            values = ops.from_bytes(body, spec.dtype)
        if spec.dtype.is_floating:
            finite = tf.reduce_all(tf.math.is_finite(values))
            with ops.require(finite, "an identity payload holds a NaN or an infinity"):
                values = tf.identity(values)
        return {"values": tf.reshape(values, spec.shape)}
