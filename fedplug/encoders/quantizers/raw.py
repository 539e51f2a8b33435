"""The quantizer that does not quantize: the values of a pipeline that names no quantizer."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from fedplug import ops
from fedplug.encoders.stages import Quantizer
from fedplug.registry.specs import Capabilities

__all__ = ["Raw"]


class Raw(Quantizer):
    """Sends values uncompressed, little-endian: ``itemsize`` bytes per value."""

    name: ClassVar[str] = "raw"
    wire_id: ClassVar[str] = "raw/1"

    @property
    def capabilities(self) -> Capabilities:
        """Nothing is lost."""
        return Capabilities(
            unbiased=True,
            commutes_with_sum=True,
            lossless=True,
            secure_aggregation_safe=True,
            bounded_sensitivity=True,
            sends_every_entry=True,
        )

    def get_config(self) -> dict[str, Any]:
        return {}

    def encode(self, values: tf.Tensor, round_num: tf.Tensor) -> tf.Tensor:
        del round_num
        return ops.to_bytes(values)

    def decode(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> tf.Tensor:
        """Refuses another number of bytes, and values that are not finite."""
        data = ops.of_length(code, count * dtype.size, "the bytes of raw values")
        values = ops.from_bytes(data, dtype)
        with ops.require(tf.reduce_all(tf.math.is_finite(values)), "a raw value is NaN or infinite"):
            return tf.identity(values)
