"""TernGrad: minus one, zero or plus one times a scale, right on average. Must not know pipelines or TFF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import serialization
from fedplug.encoders.arguments import check_seed
from fedplug.encoders.arithmetic import dither, widened
from fedplug.encoders.checks import of_length, require
from fedplug.encoders.compiled_quantizer import CompiledQuantizer, Parts
from fedplug.encoders.quantizer import PackedSymbols
from fedplug.encoders.quantizers import block_scaling
from fedplug.registry.specs import Capabilities

__all__ = ["TernGrad"]

_TRITS = 5
_PLACES = (1, 3, 9, 27, 81)
_WHAT = "the bytes of a terngrad payload"


class TernGrad(CompiledQuantizer):
    """``sign(x)`` with probability ``|x| / scale``, else zero; ``scale`` is the tensor's largest magnitude.

    The random numbers follow from seed, round and values (see `fedplug.encoders.arithmetic.dither`):
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
        self.seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased."""
        return Capabilities(unbiased=True, needs_seed=True)

    def get_config(self) -> dict[str, Any]:
        """The argument."""
        return {"seed": self.seed}

    @property
    def value_code(self) -> Mapping[str, Any]:
        """See `fedplug.ops.encode_values`."""
        return {"form": "terngrad"}

    def symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols:
        """Bytes of five elements each."""
        return PackedSymbols(dtype.size, (count + _TRITS - 1) // _TRITS, 8)

    def to_parts(self, values: tf.Tensor, round_num: tf.Tensor) -> Parts:
        """``{"signs": int8[n] in [-1, 1], "scale": dtype scalar}``."""
        wide = widened(values)
        scale = tf.reduce_max(tf.concat([tf.abs(wide), tf.zeros([1], wide.dtype)], axis=0))
        noise = tf.cast(dither(values, self.seed, round_num), wide.dtype)
        chosen = noise < tf.math.divide_no_nan(tf.abs(wide), scale)
        signs = tf.where(chosen, tf.sign(wide), tf.zeros_like(wide))
        return {"signs": tf.cast(signs, tf.int8), "scale": tf.cast(scale, values.dtype)}

    def from_parts(self, parts: Parts, dtype: tf.DType) -> tf.Tensor:
        """``scale * sign``."""
        return tf.cast(parts["signs"], dtype) * parts["scale"]

    def pack(self, parts: Parts) -> tf.Tensor:
        """See the class."""
        trits = parts["signs"] + 1
        filled = tf.pad(trits, [[0, -tf.size(trits) % _TRITS]], constant_values=1)
        rows = tf.reshape(tf.cast(filled, tf.int32), [-1, _TRITS])
        packed = tf.cast(tf.reduce_sum(rows * _PLACES, axis=1), tf.uint8)
        return tf.concat([serialization.to_bytes(parts["scale"]), packed], axis=0)

    def unpack(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Parts:
        """Refuses another length, a scale that is not valid, and bytes that stand for no five signs."""
        code = of_length(code, dtype.size + self.symbols(count, dtype).number, _WHAT)
        scales = block_scaling.scales_from_bytes(code[: dtype.size], dtype, "a terngrad payload")
        packed = tf.cast(code[dtype.size :], tf.int32)
        trits = tf.reshape(packed[:, tf.newaxis] // _PLACES % 3, [-1])
        valid = tf.reduce_all(packed < 3**_TRITS) & tf.reduce_all(trits[count:] == 1)
        with require(valid, f"{_WHAT} stand for no signs"):
            return {"signs": tf.cast(trits[:count], tf.int8) - 1, "scale": scales[0]}
