"""How chosen entries travel: values through a quantizer, indices through an index coder.

Knows the two contracts; must not know sparsifiers, or how entries are chosen.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import tensorflow as tf

from fedplug import ops
from fedplug.encoders import serialization
from fedplug.encoders.base import Encoder, Payload
from fedplug.encoders.checks import require
from fedplug.encoders.index_coder import IndexCoder
from fedplug.encoders.quantizer import Quantizer

__all__ = ["SparseEncoder", "SparseForm", "scatter_add"]

_LENGTHS_BYTES = 8
_VALUE = "value_"


@dataclass(frozen=True)
class SparseForm:
    """The payload ``{"indices": int32[k], "index_code": uint8[...], "value_...": ...}`` and its bytes.

    Bytes: uint32 k; uint32 length of the index code; the index code; the quantizer's bytes of the k values.
    """

    quantizer: Quantizer
    coder: IndexCoder

    @property
    def wire_id(self) -> str:
        """Says how values and indices are written, as how they were chosen does not matter to a reader."""
        return f"sparse+{self.quantizer.wire_id}+{self.coder.wire_id}"

    def payload(self, values: tf.Tensor, indices: tf.Tensor, size: int, round_num: tf.Tensor) -> Payload:
        """The payload of k values and their places in a tensor of ``size`` elements."""
        quantized = self.quantizer.quantize(values, round_num)
        return {
            "indices": indices,
            "index_code": self.coder.encode(indices, size, round_num),
            **{_VALUE + key: part for key, part in quantized.items()},
        }

    def values(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """The k values a payload stands for."""
        return self.quantizer.dequantize(_quantized(payload), dtype)

    def to_wire(self, payload: Payload) -> tf.Tensor:
        """See the class."""
        code = payload["index_code"]
        lengths = serialization.to_bytes(tf.stack([tf.size(payload["indices"]), tf.size(code)]))
        return tf.concat([lengths, code, self.quantizer.to_bytes(_quantized(payload))], axis=0)

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """Refuses lengths that do not fit the tensor or the body, and what coder and quantizer refuse."""
        size = spec.shape.num_elements()
        with require(tf.size(body) >= _LENGTHS_BYTES, "a sparse payload is too short to hold its lengths"):
            lengths = serialization.from_bytes(body[:_LENGTHS_BYTES], tf.int32)
        count, code_bytes = lengths[0], lengths[1]
        fits = (
            (count >= 0)
            & (count <= size)
            & (code_bytes >= 0)
            & (code_bytes <= tf.size(body) - _LENGTHS_BYTES)
        )
        with require(fits, "the lengths in a sparse payload do not fit the payload or the tensor"):
            count, values_at = tf.identity(count), _LENGTHS_BYTES + code_bytes
        code = body[_LENGTHS_BYTES:values_at]
        quantized = self.quantizer.from_bytes(body[values_at:], count, spec.dtype)
        return {
            "indices": self.coder.decode(code, count, size),
            "index_code": code,
            **{_VALUE + key: part for key, part in quantized.items()},
        }


class SparseEncoder(Encoder):
    """An encoder whose payloads are of a `SparseForm`: how they are made is left to the subclass."""

    @property
    @abc.abstractmethod
    def form(self) -> SparseForm:
        """How the entries travel."""

    def values(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """The k values a payload stands for; `decode` and `accumulate` follow from them."""
        return self.form.values(payload, dtype)

    def decode(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """Zeros with the payload's values at its indices."""
        values = self.values(payload, spec.dtype)
        size = spec.shape.num_elements()
        dense = ops.scatter_decode(size, values, payload["indices"], _row_splits(values))
        return tf.reshape(dense, spec.shape)

    def accumulate(
        self, accumulator: tf.Tensor, payload: Payload, weight: tf.Tensor, spec: tf.TensorSpec
    ) -> tf.Tensor:
        """Touches the payload's entries only."""
        return scatter_add(accumulator, self.values(payload, spec.dtype), payload["indices"], weight)

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """See `SparseForm`."""
        del spec
        return self.form.to_wire(payload)

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """See `SparseForm`."""
        return self.form.from_wire(body, spec)


def scatter_add(
    accumulator: tf.Tensor, values: tf.Tensor, indices: tf.Tensor, weight: tf.Tensor | None = None
) -> tf.Tensor:
    """``accumulator[indices] += weight * values`` of one payload; ``weight`` is 1 by default."""
    weights = None if weight is None else tf.reshape(weight, [1])
    return ops.scatter_decode_add(accumulator, values, indices, _row_splits(values), weights)


def _row_splits(values: tf.Tensor) -> tf.Tensor:
    """Those of one payload."""
    return tf.stack([tf.constant(0, tf.int64), tf.size(values, tf.int64)])


def _quantized(payload: Payload) -> Payload:
    return {key.removeprefix(_VALUE): part for key, part in payload.items() if key.startswith(_VALUE)}
