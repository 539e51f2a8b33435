"""The quantizer that does not quantize: the values of a pipeline that names no quantizer."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import serialization
from fedplug.encoders.base import Payload
from fedplug.encoders.checks import of_length, require
from fedplug.encoders.quantizer import Quantizer
from fedplug.registry.specs import Capabilities

__all__ = ["Raw"]


class Raw(Quantizer):
    """Values as they are, little-endian: ``itemsize`` bytes per value."""

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
        )

    def get_config(self) -> dict[str, Any]:
        """No arguments."""
        return {}

    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """``{"values": values}``."""
        del round_num
        return {"values": values}

    def dequantize(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """The values."""
        del dtype
        return payload["values"]

    def to_bytes(self, payload: Payload) -> tf.Tensor:
        """See the class."""
        return serialization.to_bytes(payload["values"])

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """Refuses another number of bytes, and values that are not finite."""
        data = of_length(data, count * dtype.size, "the bytes of raw values")
        values = serialization.from_bytes(data, dtype)
        with require(tf.reduce_all(tf.math.is_finite(values)), "a raw value is NaN or infinite"):
            return {"values": tf.identity(values)}
