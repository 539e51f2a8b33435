"""Quantizers that one compiled kernel computes each way. Must not know pipelines, TFF, or any of them.

A subclass describes itself twice: to the kernel by `value_code`, and in plain TensorFlow by four steps. These
are the kernel's twin, bit for bit, and what runs where custom ops do not.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from fedplug import ops
from fedplug.encoders.arithmetic import noise_seed
from fedplug.encoders.base import Payload
from fedplug.encoders.checks import require
from fedplug.encoders.quantizer import CodedQuantizer

__all__ = ["CompiledQuantizer", "Parts"]

Parts = Mapping[str, tf.Tensor]
"""What is packed: levels and scales, for instance."""


class CompiledQuantizer(CodedQuantizer):
    """Code and values come from a call of the kernel each, or from the four steps."""

    seed: int = 0
    """For quantizers that round at random."""

    @property
    @abc.abstractmethod
    def value_code(self) -> Mapping[str, Any]:
        """What to ask of the kernel: ``form``, ``bits`` and ``block_size`` of `fedplug.ops.encode_values`."""

    def of_value_code(self, op: Callable[[Mapping[str, Any]], tf.Tensor]) -> tf.Tensor:
        """``op(value_code)``; to be overridden where that is known only when a graph runs."""
        return op(self.value_code)

    @abc.abstractmethod
    def to_parts(self, values: tf.Tensor, round_num: tf.Tensor) -> Parts:
        """Quantizes a finite vector."""

    @abc.abstractmethod
    def from_parts(self, parts: Parts, dtype: tf.DType) -> tf.Tensor:
        """The vector that the parts stand for."""

    @abc.abstractmethod
    def pack(self, parts: Parts) -> tf.Tensor:
        """The parts as the bytes that travel."""

    @abc.abstractmethod
    def unpack(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Parts:
        """The inverse of `pack` for bytes that nobody vouches for; refuses as `from_bytes` does."""

    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """See the class; refuses values that are NaN or infinite."""
        if ops.resolve_lowering() == "fused":
            seed = noise_seed(self.seed, round_num)
            code = self.of_value_code(lambda how: ops.encode_values(values, **how, seed=seed))
            return {"code": code, "values": self._decoded(code, tf.size(values), values.dtype)}
        with require(
            tf.reduce_all(tf.math.is_finite(values)), f"{self.name} got values that are NaN or infinite"
        ):
            parts = self.to_parts(tf.identity(values), round_num)
        return {"code": self.pack(parts), "values": self.from_parts(parts, values.dtype)}

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """Refuses what `quantize` writes for no values with this configuration."""
        if ops.resolve_lowering() == "fused":
            return {"code": data, "values": self._decoded(data, count, dtype)}
        return {"code": data, "values": self.from_parts(self.unpack(data, count, dtype), dtype)}

    def _decoded(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> tf.Tensor:
        return self.of_value_code(lambda how: ops.decode_values(code, count, dtype=dtype, **how))
