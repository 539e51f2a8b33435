"""Eight bits an element, to the nearest of 255 levels within each block. Must not know pipelines or TFF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import serialization
from fedplug.encoders.arithmetic import widened
from fedplug.encoders.checks import of_length, require
from fedplug.encoders.compiled_quantizer import CompiledQuantizer, Parts
from fedplug.encoders.quantizer import PackedSymbols
from fedplug.encoders.quantizers import block_scaling

__all__ = ["Blockwise8"]

_HEADER_BYTES = 1
_LEVELS = 127


class Blockwise8(CompiledQuantizer):
    """``round(127 x / scale)`` as int8, where ``scale`` is the block's largest magnitude; ties to even.

    Blocks keep an outlier's harm to its neighbours. Not random, so the error (below ``scale / 254``) is the
    same every time.

    Source: Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", ICLR 2022
    (arXiv 2110.02861), section 2, with evenly spaced levels instead of their dynamic tree.

    Wire form "blockwise8/1": uint8 log2 of the block size; a scale per block in the tensor's dtype,
    little-endian; the int8 of every element. That is ``1 + itemsize / block_size`` bytes per element: 1.016
    for float32.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "blockwise8"
    wire_id: ClassVar[str] = "blockwise8/1"

    def __init__(self, *, block_size: int = 256) -> None:
        """Makes the encoder.

        Args:
            block_size: How many elements share a scale, a power of two.

        Raises:
            ConfigError: It is not.
        """
        block_scaling.check_block_size("blockwise8", block_size)
        self._block_size = block_size

    def get_config(self) -> dict[str, Any]:
        """The argument."""
        return {"block_size": self._block_size}

    @property
    def value_code(self) -> Mapping[str, Any]:
        """See `fedplug.ops.encode_values`."""
        return {"form": "blockwise8", "block_size": self._block_size}

    def symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols:
        """The levels, as the bytes they are."""
        start = _HEADER_BYTES + block_scaling.block_count(count, self._block_size) * dtype.size
        return PackedSymbols(start, count, 8)

    def to_parts(self, values: tf.Tensor, round_num: tf.Tensor) -> Parts:
        """``{"levels": int8[n] in [-127, 127], "scales": dtype[blocks]}``."""
        del round_num
        relative, scales = block_scaling.relative_to_scales(widened(values), self._block_size)
        levels = tf.cast(tf.round(relative * _LEVELS), tf.int8)
        return {"levels": levels, "scales": tf.cast(scales, values.dtype)}

    def from_parts(self, parts: Parts, dtype: tf.DType) -> tf.Tensor:
        """``scale * (level / 127)``."""
        scales = widened(parts["scales"])
        relative = block_scaling.evenly_spaced(parts["levels"], _LEVELS, scales.dtype)
        return tf.cast(block_scaling.times_scales(relative, scales, self._block_size), dtype)

    def pack(self, parts: Parts) -> tf.Tensor:
        """See the class."""
        scales, levels = serialization.to_bytes(parts["scales"]), serialization.to_bytes(parts["levels"])
        return tf.concat([self._header(), scales, levels], axis=0)

    def unpack(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Parts:
        """Refuses another block size or length, scales that are not valid, and the level -128."""
        levels_at = self.symbols(count, dtype).start
        code = of_length(code, levels_at + count, "the bytes of a blockwise8 payload")
        with require(
            tf.reduce_all(code[:_HEADER_BYTES] == self._header()),
            f"a blockwise8 payload was not made with block_size={self._block_size}",
        ):
            scales = block_scaling.scales_from_bytes(
                code[_HEADER_BYTES:levels_at], dtype, "a blockwise8 payload"
            )
        levels = serialization.from_bytes(code[levels_at:], tf.int8)
        with require(tf.reduce_all(levels >= -_LEVELS), "a blockwise8 payload holds a level of -128"):
            return {"levels": tf.identity(levels), "scales": scales}

    def _header(self) -> tf.Tensor:
        return tf.constant([self._block_size.bit_length() - 1], tf.uint8)
