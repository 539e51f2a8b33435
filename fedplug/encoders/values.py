"""What a pipeline does with values: a quantizer, and perhaps an entropy coder for the symbols it writes."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from fedplug import ops
from fedplug.encoders.base import Payload
from fedplug.encoders.stages import EntropyCoder, PackedSymbols, Quantizer
from fedplug.registry.specs import Capabilities

__all__ = ["ValueCoder"]


@dataclass(frozen=True)
class ValueCoder:
    """The payload ``{"values": dtype[k], "value_code": uint8[...]}``: what a receiver gets, and its bytes.

    With a lossless quantizer the code is left out, as it follows from the values; so such values can be added
    up before anything is decoded (`Capabilities.commutes_with_sum`).

    Bytes: the quantizer's, with the code of the entropy coder in place of the packed symbols at their end.
    """

    quantizer: Quantizer
    entropy_coder: EntropyCoder | None = None

    @property
    def wire_id(self) -> str:
        """Names both."""
        coder = self.entropy_coder
        return self.quantizer.wire_id if coder is None else f"{self.quantizer.wire_id}+{coder.wire_id}"

    @property
    def capabilities(self) -> Capabilities:
        """The quantizer's: the entropy coder loses nothing."""
        return self.quantizer.capabilities

    @property
    def lossless(self) -> bool:
        """Whether a receiver gets the values as they are."""
        return self.quantizer.capabilities.lossless

    def payload(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """Of a vector."""
        if self.lossless:
            return {"values": values}
        code = self.quantizer.encode(values, round_num)
        received = self.quantizer.decode(code, tf.size(values), values.dtype)
        return {"values": received, "value_code": self._shortened(code, tf.size(values), values.dtype)}

    def to_bytes(self, payload: Payload) -> tf.Tensor:
        if not self.lossless:
            return payload["value_code"]
        values = payload["values"]
        code = self.quantizer.encode(values, tf.constant(0))
        return self._shortened(code, tf.size(values), values.dtype)

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """The payload of ``count`` values; refuses what entropy coder and quantizer refuse."""
        values = self.quantizer.decode(self._restored(data, count, dtype), count, dtype)
        return {"values": values} if self.lossless else {"values": values, "value_code": data}

    def _shortened(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> tf.Tensor:
        if self.entropy_coder is None:
            return code
        start, number, bits = self._symbols(count, dtype)
        return tf.concat([code[:start], self.entropy_coder.encode(code[start:], number, bits)], axis=0)

    def _restored(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> tf.Tensor:
        if self.entropy_coder is None:
            return data
        start, number, bits = self._symbols(count, dtype)
        with ops.require(
            tf.size(data) >= start, f"a {self.wire_id} payload is too short for what comes before its symbols"
        ):
            head, code = data[:start], data[start:]
        return tf.concat([head, self.entropy_coder.decode(code, number, bits)], axis=0)

    def _symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols:
        found = self.quantizer.symbols(count, dtype)
        assert found is not None  # `arrange` has seen it
        return found
