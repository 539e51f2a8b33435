"""A quantizer and an entropy coder as one quantizer. Must not know any of them, nor pipelines or TFF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders.base import Payload
from fedplug.encoders.checks import require
from fedplug.encoders.entropy_coder import EntropyCoder
from fedplug.encoders.quantizer import CodedQuantizer, PackedSymbols, Quantizer
from fedplug.encoders.reading import as_component, component_config
from fedplug.errors import CapabilityError, ConfigError
from fedplug.registry.specs import Capabilities

__all__ = ["EntropyCoded"]


class EntropyCoded(CodedQuantizer):
    """The quantizer's values in fewer bytes: its symbols go through the entropy coder.

    Written as ``fedplug.encoder("qsgd(4) | rans")``, and so in a pipeline.

    Wire form: the quantizer's bytes up to the packed symbols, and the coder's code of these; the wire id
    names both, "qsgd/1+rans/1". Bytes per element: what the quantizer has besides symbols, and the code.
    """

    name: ClassVar[str] = "entropy_coded"

    def __init__(
        self, quantizer: Quantizer | str | Mapping[str, Any], coder: EntropyCoder | str | Mapping[str, Any]
    ) -> None:
        """Makes the encoder.

        Args:
            quantizer: One that ends with packed symbols; or what `as_component` reads as one.
            coder: An entropy coder, or the same for one.

        Raises:
            CapabilityError: The quantizer leaves no symbols.
            ConfigError: One of them is something else, or cannot be read.
        """
        first, second = as_component(quantizer), as_component(coder)
        if not isinstance(first, Quantizer) or not isinstance(second, EntropyCoder):
            raise ConfigError(
                f"entropy_coded takes a quantizer and an entropy coder, not {quantizer!r} and {coder!r}"
            )
        if first.symbols(0, tf.float32) is None:
            raise CapabilityError(
                f"{second!r} shortens symbols of one fixed number of bits, and {first!r} has none; use "
                f"'qsgd(8) | {second!r}', or leave {second!r} out"
            )
        self._quantizer: Quantizer = first
        self._coder: EntropyCoder = second
        self.error_feedback = first.error_feedback

    @property
    def wire_id(self) -> str:  # type: ignore[override]  # a constant of every other quantizer
        """See the class."""
        return f"{self._quantizer.wire_id}+{self._coder.wire_id}"

    @property
    def capabilities(self) -> Capabilities:
        """The quantizer's: the coder loses nothing."""
        return self._quantizer.capabilities

    def get_config(self) -> dict[str, Any]:
        """The arguments, by name and configuration."""
        return {"quantizer": component_config(self._quantizer), "coder": component_config(self._coder)}

    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """See the class."""
        payload = self._quantizer.quantize(values, round_num)
        data = self._quantizer.to_bytes(payload)
        start, number, bits = self._symbols(tf.size(values), values.dtype)
        code = tf.concat([data[:start], self._coder.encode(data[start:], number, bits)], axis=0)
        return {"code": code, "values": self._quantizer.dequantize(payload, values.dtype)}

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """Refuses what coder and quantizer refuse."""
        start, number, bits = self._symbols(count, dtype)
        with require(
            tf.size(data) >= start, f"a {self.wire_id} payload is too short for what comes before its symbols"
        ):
            head, code = data[:start], data[start:]
        packed = self._coder.decode(code, number, bits)
        payload = self._quantizer.from_bytes(tf.concat([head, packed], axis=0), count, dtype)
        return {"code": data, "values": self._quantizer.dequantize(payload, dtype)}

    def _symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols:
        found = self._quantizer.symbols(count, dtype)
        assert found is not None  # __init__ has seen it
        return found

    def __repr__(self) -> str:
        return f"{self._quantizer!r} | {self._coder!r}"
