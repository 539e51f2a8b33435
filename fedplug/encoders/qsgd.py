"""Stochastic uniform quantization: few bits an element, right on average. Must not know pipelines or TFF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import bit_packing, blocks, tensor_bytes
from fedplug.encoders.arithmetic import check_seed, private_noise, widened
from fedplug.encoders.checks import require
from fedplug.encoders.compiled_quantizer import CompiledQuantizer, Parts
from fedplug.encoders.quantizer import PackedSymbols
from fedplug.errors import ConfigError
from fedplug.spec import Capabilities

__all__ = ["QSGD"]

_HEADER_BYTES = 2
_MIN_BITS, _MAX_BITS = 2, 8
_WHAT = "the codes of a qsgd payload"


class QSGD(CompiledQuantizer):
    """Rounds every element at random to one of ``2 L + 1`` evenly spaced levels, ``L = 2^(bits-1) - 1``.

    With the block's largest magnitude as ``scale`` and ``y = L x / scale``, the level is ``floor(y)`` or
    ``floor(y) + 1``, the latter with probability ``y - floor(y)``, so that the expectation is ``x`` and the
    error below ``scale / L``. The random numbers follow from seed, round and values (see
    `fedplug.encoders.arithmetic.private_noise`): equal calls give equal bits.

    Source: Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: Communication-Efficient SGD via Gradient
    Quantization and Encoding", NIPS 2017 (arXiv 1610.02132), section 3, with the buckets and the scaling by
    the maximum of section 4; levels are written with a fixed number of bits instead of Elias codes.

    Wire form "qsgd/1": uint8 bits; uint8 log2 of the block size; a scale per block in the tensor's dtype,
    little-endian; level + L of every element in ``bits`` bits (see `bit_packing`). That is ``bits / 8 +
    itemsize / block_size`` bytes per element: 1.008 for 8 bits of float32.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "qsgd"
    wire_id: ClassVar[str] = "qsgd/1"

    def __init__(self, bits: int = 8, *, block_size: int = 512, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            bits: Of each element, 2 to 8.
            block_size: How many elements share a scale, a power of two.
            seed: 0 to 2^31 - 1; other seeds, other random numbers.

        Raises:
            ConfigError: One of them is out of range.
        """
        if not isinstance(bits, int) or isinstance(bits, bool) or not _MIN_BITS <= bits <= _MAX_BITS:
            raise ConfigError(
                f"qsgd bits is {bits!r}; it must be {_MIN_BITS} to {_MAX_BITS} "
                "(for one bit an element, use sign)"
            )
        blocks.check_block_size("qsgd", block_size)
        check_seed("qsgd", seed)
        self._bits = bits
        self._block_size = block_size
        self.seed = seed
        self._levels = 2 ** (bits - 1) - 1

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased."""
        return Capabilities(unbiased=True, needs_seed=True)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"bits": self._bits, "block_size": self._block_size, "seed": self.seed}

    @property
    def value_code(self) -> Mapping[str, Any]:
        """See `fedplug.ops.encode_values`."""
        return {"form": "qsgd", "bits": self._bits, "block_size": self._block_size}

    def symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols:
        """The levels."""
        start = _HEADER_BYTES + blocks.block_count(count, self._block_size) * dtype.size
        return PackedSymbols(start, count, self._bits)

    def to_parts(self, values: tf.Tensor, round_num: tf.Tensor) -> Parts:
        """``{"levels": int8[n] in [-L, L], "scales": dtype[blocks]}``."""
        relative, scales = blocks.relative_to_scales(widened(values), self._block_size)
        exact = relative * self._levels
        below = tf.floor(exact)
        noise = tf.cast(private_noise(values, self.seed, round_num), exact.dtype)
        levels = below + tf.cast(noise < exact - below, exact.dtype)
        return {"levels": tf.cast(levels, tf.int8), "scales": tf.cast(scales, values.dtype)}

    def from_parts(self, parts: Parts, dtype: tf.DType) -> tf.Tensor:
        """``scale * (level / L)``."""
        scales = widened(parts["scales"])
        relative = blocks.evenly_spaced(parts["levels"], self._levels, scales.dtype)
        return tf.cast(blocks.times_scales(relative, scales, self._block_size), dtype)

    def pack(self, parts: Parts) -> tf.Tensor:
        """See the class."""
        codes = tf.cast(tf.cast(parts["levels"], tf.int16) + self._levels, tf.uint8)
        scales = tensor_bytes.to_bytes(parts["scales"])
        return tf.concat([self._header(), scales, bit_packing.pack(codes, self._bits)], axis=0)

    def unpack(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Parts:
        """Refuses another configuration or length, scales that are not valid, and levels beyond L."""
        codes_at = self.symbols(count, dtype).start
        with require(tf.size(code) >= codes_at, "a qsgd payload is too short to hold its scales"):
            code = tf.identity(code)
        with require(
            tf.reduce_all(code[:_HEADER_BYTES] == self._header()),
            f"a qsgd payload was not made with bits={self._bits} and block_size={self._block_size}",
        ):
            scales = blocks.scales_from_bytes(code[_HEADER_BYTES:codes_at], dtype, "a qsgd payload")
        codes = bit_packing.unpack(code[codes_at:], count, self._bits, _WHAT)
        with require(tf.reduce_all(codes <= 2 * self._levels), f"{_WHAT} hold a level that does not exist"):
            return {"levels": tf.cast(tf.cast(codes, tf.int16) - self._levels, tf.int8), "scales": scales}

    def _header(self) -> tf.Tensor:
        return tf.constant([self._bits, self._block_size.bit_length() - 1], tf.uint8)
