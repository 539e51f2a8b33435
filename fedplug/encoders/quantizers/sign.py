"""Signs and one scale: one bit an element. Must not know pipelines or TFF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from fedplug import ops
from fedplug.encoders import bit_packing, serialization
from fedplug.encoders.arguments import check_error_feedback
from fedplug.encoders.arithmetic import mean_magnitude
from fedplug.encoders.base import Payload, State
from fedplug.encoders.checks import require
from fedplug.encoders.compiled_quantizer import CompiledQuantizer, Parts
from fedplug.encoders.quantizer import PackedSymbols
from fedplug.encoders.quantizers import block_scaling

__all__ = ["Sign"]


class Sign(CompiledQuantizer):
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
        check_error_feedback("sign", error_feedback)
        self.error_feedback = error_feedback

    def get_config(self) -> dict[str, Any]:
        """The argument."""
        return {"error_feedback": self.error_feedback}

    @property
    def value_code(self) -> Mapping[str, Any]:
        """See `fedplug.ops.encode_values`."""
        return {"form": "sign"}

    def symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols:
        """The signs."""
        return PackedSymbols(dtype.size, count, 1)

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """As any `Quantizer`; with error feedback in one op, whose twin is what they all do."""
        if not self.error_feedback or ops.resolve_lowering() != "fused":
            return super().encode(x, state, round_num)
        code, residual = ops.sign_residual(x, state["residual"])
        payload = self.from_bytes(code, x.shape.num_elements(), x.dtype)
        return payload, {"residual": residual}

    def to_parts(self, values: tf.Tensor, round_num: tf.Tensor) -> Parts:
        """``{"positive": bool[n], "scale": dtype scalar}``."""
        del round_num
        return {"positive": values >= 0, "scale": mean_magnitude(values)}

    def from_parts(self, parts: Parts, dtype: tf.DType) -> tf.Tensor:
        """``scale`` where positive, ``-scale`` elsewhere."""
        del dtype
        return tf.where(parts["positive"], parts["scale"], -parts["scale"])

    def pack(self, parts: Parts) -> tf.Tensor:
        """See the class."""
        bits = bit_packing.pack(tf.cast(parts["positive"], tf.uint8), bits=1)
        return tf.concat([serialization.to_bytes(parts["scale"]), bits], axis=0)

    def unpack(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Parts:
        """Refuses another length, a scale that is not valid, and unused bits that are set."""
        with require(tf.size(code) >= dtype.size, "a sign payload is too short to hold its scale"):
            code = tf.identity(code)
        scales = block_scaling.scales_from_bytes(code[: dtype.size], dtype, "a sign payload")
        bits = bit_packing.unpack(code[dtype.size :], count, bits=1, what="the bits of a sign payload")
        return {"positive": bits == 1, "scale": scales[0]}
