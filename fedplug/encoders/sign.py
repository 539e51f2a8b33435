"""Signs and one scale: one bit an element. Must not know pipelines or TFF."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import bit_packing, blocks, tensor_bytes
from fedplug.encoders.arithmetic import mean_magnitude
from fedplug.encoders.base import Payload
from fedplug.encoders.checks import require
from fedplug.encoders.quantizer import Quantizer
from fedplug.errors import ConfigError

__all__ = ["Sign"]


class Sign(Quantizer):
    """``mean(|x|) * sign(x)``, where ``sign(0) = +1``: of all vectors of one magnitude the nearest to ``x``.

    Sources: Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent", Interspeech 2014; Karimireddy,
    Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019
    (arXiv 1901.09847), algorithm 1 and equation 4. Without error feedback it need not converge.

    Wire form "sign/1": the scale in the tensor's dtype, little-endian; the bit of element ``8 i + j`` is bit
    j of byte i, 1 for ``+``; unused bits are 0. That is 1/8 byte per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "sign"
    wire_id: ClassVar[str] = "sign/1"

    def __init__(self, *, error_feedback: bool = True) -> None:
        """Makes the encoder.

        Args:
            error_feedback: Keep the error in the client's state and add it the next time. Without effect in a
                pipeline, where the sparsifier keeps it.

        Raises:
            ConfigError: It is no boolean.
        """
        if not isinstance(error_feedback, bool):
            raise ConfigError(f"sign error_feedback is {error_feedback!r}; it must be true or false")
        self.error_feedback = error_feedback

    def get_config(self) -> dict[str, Any]:
        """The argument."""
        return {"error_feedback": self.error_feedback}

    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """``{"positive": bool[n], "scale": dtype scalar}``."""
        del round_num
        return {"positive": values >= 0, "scale": mean_magnitude(values)}

    def dequantize(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """``scale`` where positive, ``-scale`` elsewhere."""
        del dtype
        return tf.where(payload["positive"], payload["scale"], -payload["scale"])

    def to_bytes(self, payload: Payload) -> tf.Tensor:
        """See the class."""
        bits = bit_packing.pack(tf.cast(payload["positive"], tf.uint8), bits=1)
        return tf.concat([tensor_bytes.to_bytes(payload["scale"]), bits], axis=0)

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """Refuses another length, a scale that is not valid, and unused bits that are set."""
        with require(tf.size(data) >= dtype.size, "a sign payload is too short to hold its scale"):
            data = tf.identity(data)
        scales = blocks.scales_from_bytes(data[: dtype.size], dtype, "a sign payload")
        bits = bit_packing.unpack(data[dtype.size :], count, bits=1, what="the bits of a sign payload")
        return {"positive": bits == 1, "scale": scales[0]}
