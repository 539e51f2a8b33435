"""The encoder: signs and one scale, in plain TensorFlow. Must not know TFF or how signs are packed."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import Encoder, Payload, State, serialization
from fedplug.encoders.checks import require
from fedplug.registry.specs import Capabilities
from fedplug_signsgd.bits import pack, packed_size, unpack

__all__ = ["SignSGD"]

_ROW = 1024


class SignSGD(Encoder):
    """Sends the sign of every element and the mean magnitude; what that misses waits on the client.

    With ``a = x + residual`` of n elements: ``scale = ||a||_1 / n``, ``decode(payload) = scale * sign(a)``
    where ``sign(0) = +1``, and ``residual' = a - decode(payload)``, so ``decode(payload) + residual'`` is
    ``a`` up to the rounding of one subtraction. Without the residual the method need not converge.

    Source: Karimireddy, Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression
    Schemes", ICML 2019 (arXiv 1901.09847), algorithm 1 and equation 4.

    Wire form "ef-signsgd/1": the scale, little-endian in the tensor's dtype; ``ceil(n / 8)`` bytes of signs,
    the element ``8 i + j`` in bit j of byte i, 1 for ``+``; unused bits are 0. That is 1/8 byte per element.

    Takes float16, bfloat16, float32 and float64. Denormal numbers are zero to TensorFlow's arithmetic.
    """

    name: ClassVar[str] = "signsgd"
    wire_id: ClassVar[str] = "ef-signsgd/1"

    @property
    def capabilities(self) -> Capabilities:
        """Biased, and useless without its state."""
        return Capabilities(needs_client_state=True)

    def get_config(self) -> dict[str, Any]:
        """There is nothing to configure."""
        return {}

    def init_state(self, spec: tf.TensorSpec) -> State:
        """``{"residual": zeros of the tensor's shape and dtype}``."""
        return {"residual": tf.zeros(spec.shape, spec.dtype)}

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """The payload is ``{"signs": bool[n], "scale": x.dtype scalar}``; True stands for ``+``."""
        del round_num
        a = x + state["residual"]
        payload = {"signs": tf.reshape(a >= 0, [-1]), "scale": _mean_magnitude(a)}
        return payload, {"residual": a - self.decode(payload, tf.TensorSpec(x.shape, x.dtype))}

    def decode(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """``scale`` where the sign is ``+``, ``-scale`` elsewhere."""
        return tf.reshape(tf.where(payload["signs"], payload["scale"], -payload["scale"]), spec.shape)

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """See the class."""
        del spec
        return tf.concat([serialization.to_bytes(payload["scale"]), pack(payload["signs"])], axis=0)

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """Refuses a wrong length, a scale that is negative, -0 or not finite, and unused bits set."""
        size = spec.shape.num_elements()
        length = spec.dtype.size + packed_size(size)
        with require(
            tf.size(body) == length, f"an ef-signsgd payload of {size} elements must have {length} bytes"
        ):
            # No reshape to [length] here: TensorFlow's optimizer takes that for a proof of the length, and
            # drops both the requirement and the reshape.
            body = tf.identity(body)
        scale = serialization.from_bytes(body[: spec.dtype.size], spec.dtype)[0]
        positive = body[spec.dtype.size - 1] < 0x80  # the highest bit is the sign, of zeros as well
        with require(tf.math.is_finite(scale) & positive, "the scale of an ef-signsgd payload is not valid"):
            scale = tf.identity(scale)
        signs = unpack(body[spec.dtype.size :])
        with require(~tf.reduce_any(signs[size:]), "an ef-signsgd payload has unused bits that are set"):
            return {"signs": tf.identity(signs[:size]), "scale": scale}


def _mean_magnitude(a: tf.Tensor) -> tf.Tensor:
    """``||a||_1 / n`` (0 for no elements), the same bits on any number of threads.

    A `tf.reduce_sum` of everything is split by the number of threads, and sums of floats depend on the split;
    the sum of a short row is not split. Dividing first, in float64, keeps the sum from overflowing but for
    the last rounding.
    """
    sums = tf.abs(tf.reshape(tf.cast(a, tf.float64), [-1])) / max(a.shape.num_elements(), 1)
    while sums.shape[0] > 1:
        rows = tf.reshape(tf.pad(sums, [[0, -sums.shape[0] % _ROW]]), [-1, _ROW])
        sums = tf.reduce_sum(rows, axis=1)
    return tf.cast(tf.minimum(tf.reduce_sum(sums), tf.float64.max), a.dtype)
