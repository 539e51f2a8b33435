"""TernGrad: minus one, zero or plus one times a scale, right on average. Must not know pipelines or TFF."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import blocks, tensor_bytes
from fedplug.encoders.arithmetic import check_seed, private_noise, widened
from fedplug.encoders.base import Payload
from fedplug.encoders.checks import of_length, require
from fedplug.encoders.quantizer import Quantizer
from fedplug.spec import Capabilities

__all__ = ["TernGrad"]

_TRITS = 5
_PLACES = (1, 3, 9, 27, 81)
_WHAT = "the bytes of a terngrad payload"


class TernGrad(Quantizer):
    """``sign(x)`` with probability ``|x| / scale``, else zero; ``scale`` is the tensor's largest magnitude.

    The random numbers follow from seed, round and values (see `fedplug.encoders.arithmetic.private_noise`):
    equal calls give equal bits. Gradient clipping, which the paper adds and which is biased, is left out.

    Source: Wen, Xu, Yan, Wu, Wang, Chen, Li, "TernGrad: Ternary Gradients to Reduce Communication in
    Distributed Deep Learning", NIPS 2017 (arXiv 1705.07878), equations 1 to 3 and section 4 (one scale per
    layer).

    Wire form "terngrad/1": the scale in the tensor's dtype, little-endian; five elements a byte, the sum of
    ``(sign + 1) * 3^i`` over them; what is missing from the last five counts as zero. That is 1/5 byte per
    element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "terngrad"
    wire_id: ClassVar[str] = "terngrad/1"

    def __init__(self, *, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            seed: 0 to 2^31 - 1; other seeds, other random numbers.

        Raises:
            ConfigError: It is out of range.
        """
        check_seed("terngrad", seed)
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased."""
        return Capabilities(unbiased=True, needs_seed=True)

    def get_config(self) -> dict[str, Any]:
        """The argument."""
        return {"seed": self._seed}

    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """``{"signs": int8[n] in [-1, 1], "scale": dtype scalar}``."""
        wide = widened(values)
        scale = tf.reduce_max(tf.concat([tf.abs(wide), tf.zeros([1], wide.dtype)], axis=0))
        noise = tf.cast(private_noise(values, self._seed, round_num), wide.dtype)
        chosen = noise < tf.math.divide_no_nan(tf.abs(wide), scale)
        signs = tf.where(chosen, tf.sign(wide), tf.zeros_like(wide))
        return {"signs": tf.cast(signs, tf.int8), "scale": tf.cast(scale, values.dtype)}

    def dequantize(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """``scale * sign``."""
        return tf.cast(payload["signs"], dtype) * payload["scale"]

    def to_bytes(self, payload: Payload) -> tf.Tensor:
        """See the class."""
        trits = payload["signs"] + 1
        filled = tf.pad(trits, [[0, -tf.size(trits) % _TRITS]], constant_values=1)
        rows = tf.reshape(tf.cast(filled, tf.int32), [-1, _TRITS])
        packed = tf.cast(tf.reduce_sum(rows * _PLACES, axis=1), tf.uint8)
        return tf.concat([tensor_bytes.to_bytes(payload["scale"]), packed], axis=0)

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """Refuses another length, a scale that is not valid, and bytes that stand for no five signs."""
        data = of_length(data, dtype.size + (count + _TRITS - 1) // _TRITS, _WHAT)
        scales = blocks.scales_from_bytes(data[: dtype.size], dtype, "a terngrad payload")
        packed = tf.cast(data[dtype.size :], tf.int32)
        trits = tf.reshape(packed[:, tf.newaxis] // _PLACES % 3, [-1])
        valid = tf.reduce_all(packed < 3**_TRITS) & tf.reduce_all(trits[count:] == 1)
        with require(valid, f"{_WHAT} stand for no signs"):
            return {"signs": tf.cast(trits[:count], tf.int8) - 1, "scale": scales[0]}
