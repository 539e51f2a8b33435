"""The contract of a quantizer: an encoder that represents every element with fewer bits.

It works alone on a dense tensor, and as the middle stage of a pipeline, ``sparsifier | quantizer | index
coder``, on the values that were kept. Knows TensorFlow tensors; must not know TFF or pipelines.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import tensorflow as tf

from fedplug.encoders.base import Encoder, Payload, State
from fedplug.registry.specs import Capabilities

__all__ = ["CodedQuantizer", "PackedSymbols", "Quantizer"]


class PackedSymbols(NamedTuple):
    """Where in a quantizer's bytes its symbols are: from ``start`` to the end.

    Attributes:
        start: How many bytes come before them.
        number: How many symbols there are.
        bits: Of each symbol, 1 to 8; they are packed as by `bit_packing.pack`.
    """

    start: tf.Tensor | int
    number: tf.Tensor | int
    bits: int


class Quantizer(Encoder):
    """Four functions on a vector of floats whose length may be unknown while a graph is built.

    From them follows everything an `Encoder` does with a tensor. The names in a payload are the quantizer's
    own business.
    """

    error_feedback: bool = False
    """Whether the quantizer, when it works alone, keeps its error on the client and adds it the next time. In
    a pipeline the sparsifier's residual takes the error, if it has one."""

    @property
    def capabilities(self) -> Capabilities:
        """Biased; state with error feedback only."""
        return Capabilities(needs_client_state=self.error_feedback)

    @abc.abstractmethod
    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """The payload of a vector.

        Args:
            values: ``[n]``, finite; n may be 0.
            round_num: int32 scalar, for seeds.
        """

    @abc.abstractmethod
    def dequantize(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """The vector ``[n]`` a payload stands for; finite."""

    @abc.abstractmethod
    def to_bytes(self, payload: Payload) -> tf.Tensor:
        """The payload as a uint8 vector."""

    @abc.abstractmethod
    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """The inverse of `to_bytes` for hostile bytes: a valid payload of ``count`` values, or an error.

        Raises:
            tf.errors.InvalidArgumentError: These are not bytes `to_bytes` writes for so many values.
        """

    def symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols | None:
        """Where the bytes of ``count`` values hold symbols, which an entropy coder may then make shorter.

        Default: nowhere, and then no entropy coder can follow. That must not depend on the arguments.
        """
        del count, dtype
        return None

    def init_state(self, spec: tf.TensorSpec) -> State:
        """``{"residual": zeros of the tensor's shape and dtype}`` with error feedback, else nothing."""
        return {"residual": tf.zeros(spec.shape, spec.dtype)} if self.error_feedback else {}

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """Quantizes ``a = x + residual``; ``residual' = a - decode(payload)``."""
        a = x + state["residual"] if self.error_feedback else x
        payload = self.quantize(tf.reshape(a, [-1]), round_num)
        if not self.error_feedback:
            return payload, {}
        return payload, {"residual": a - self.decode(payload, tf.TensorSpec(x.shape, x.dtype))}

    def decode(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """The dequantized vector in the tensor's shape."""
        return tf.reshape(self.dequantize(payload, spec.dtype), spec.shape)

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """The bytes of the elements in row-major order."""
        del spec
        return self.to_bytes(payload)

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """See `from_bytes`."""
        return self.from_bytes(body, spec.shape.num_elements(), spec.dtype)


class CodedQuantizer(Quantizer):
    """One that writes its bytes as it quantizes.

    The payload is ``{"code": the bytes that travel, "values": what a receiver makes of them}``.
    """

    def dequantize(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """The payload's values."""
        del dtype
        return payload["values"]

    def to_bytes(self, payload: Payload) -> tf.Tensor:
        """The payload's code."""
        return payload["code"]
