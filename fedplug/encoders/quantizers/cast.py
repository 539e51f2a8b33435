"""Narrower floating-point formats: two bytes an element. Must not know pipelines or TFF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import serialization
from fedplug.encoders.checks import of_length, require
from fedplug.encoders.compiled_quantizer import CompiledQuantizer, Parts

__all__ = ["BFloat16", "Float16"]


class _Cast(CompiledQuantizer):
    """Rounds to the nearest number of another format, ties to even; what is too large becomes the largest."""

    dtype: ClassVar[tf.DType]

    def get_config(self) -> dict[str, Any]:
        """No arguments."""
        return {}

    @property
    def value_code(self) -> Mapping[str, Any]:
        """See `fedplug.ops.encode_values`."""
        return {"form": self.name}

    def to_parts(self, values: tf.Tensor, round_num: tf.Tensor) -> Parts:
        """``{"values": the format's [n]}``."""
        del round_num
        narrow = tf.cast(values, self.dtype)
        largest = tf.cast(tf.sign(values), self.dtype) * self.dtype.max
        return {"values": tf.where(tf.math.is_inf(narrow), largest, narrow)}

    def from_parts(self, parts: Parts, dtype: tf.DType) -> tf.Tensor:
        """The values in the tensor's dtype; what is too large for that becomes its largest."""
        values = tf.cast(parts["values"], dtype)
        largest = tf.cast(tf.sign(parts["values"]), dtype) * dtype.max
        return tf.where(tf.math.is_inf(values), largest, values)

    def pack(self, parts: Parts) -> tf.Tensor:
        """Little-endian."""
        return serialization.to_bytes(parts["values"])

    def unpack(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Parts:
        """Refuses another length and values that are not finite."""
        del dtype
        code = of_length(code, count * self.dtype.size, f"the bytes of a {self.name} payload")
        values = serialization.from_bytes(code, self.dtype)
        with require(
            tf.reduce_all(tf.math.is_finite(values)), f"a {self.name} payload holds no finite number"
        ):
            return {"values": tf.identity(values)}


class Float16(_Cast):
    """IEEE 754 binary16: 11 significant bits, magnitudes from 6e-8 to 65504. 2 bytes per element.

    Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018 (arXiv 1710.03740). Wire form
    "float16/1": the elements, little-endian. Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "float16"
    wire_id: ClassVar[str] = "float16/1"
    dtype: ClassVar[tf.DType] = tf.float16


class BFloat16(_Cast):
    """The upper half of a float32: 8 significant bits, the range of float32. 2 bytes per element.

    Source: Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", 2019 (arXiv 1905.12322). Wire
    form "bfloat16/1": the elements, little-endian. Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "bfloat16"
    wire_id: ClassVar[str] = "bfloat16/1"
    dtype: ClassVar[tf.DType] = tf.bfloat16
