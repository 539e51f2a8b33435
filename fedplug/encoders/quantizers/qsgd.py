"""Stochastic uniform quantization: few bits an element, right on average. Must not know pipelines or TFF."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Self

import tensorflow as tf

from fedplug.encoders import bit_packing, serialization
from fedplug.encoders.arguments import check_seed
from fedplug.encoders.arithmetic import dither, widened
from fedplug.encoders.base import Encoder, Payload
from fedplug.encoders.checks import require
from fedplug.encoders.compiled_quantizer import CompiledQuantizer, Parts
from fedplug.encoders.quantizer import PackedSymbols
from fedplug.encoders.quantizers import block_scaling
from fedplug.encoders.quantizers.bit_widths import BitWidths
from fedplug.registry.specs import Capabilities
from fedplug.schedules import Schedule

__all__ = ["LEAST_BITS", "MOST_BITS", "QSGD"]

LEAST_BITS, MOST_BITS = 2, 8

_HEADER_BYTES = 2
_WHAT = "the codes of a qsgd payload"


class QSGD(CompiledQuantizer):
    """Rounds every element at random to one of ``2 L + 1`` evenly spaced levels, ``L = 2^(bits-1) - 1``.

    With the block's largest magnitude as ``scale`` and ``y = L x / scale``, the level is ``floor(y)`` or
    ``floor(y) + 1``, the latter with probability ``y - floor(y)``, so that the expectation is ``x`` and the
    error below ``scale / L``. The random numbers follow from seed, round and values (see
    `fedplug.encoders.arithmetic.dither`): equal calls give equal bits.

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

    def __init__(self, bits: int | Schedule = 8, *, block_size: int = 512, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            bits: Of each element, 2 to 8; or a schedule of such numbers.
            block_size: How many elements share a scale, a power of two.
            seed: 0 to 2^31 - 1; other seeds, other random numbers.

        Raises:
            ConfigError: One of them is out of range.
        """
        hint = " (for one bit an element, use sign)"
        self._widths = BitWidths("qsgd", bits, LEAST_BITS, MOST_BITS, hint)
        block_scaling.check_block_size("qsgd", block_size)
        check_seed("qsgd", seed)
        self._block_size = block_size
        self.seed = seed
        self._bits: tf.Tensor | int = self._widths.all[0]  # where there are several, `with_bits` says which

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased."""
        return Capabilities(unbiased=True, needs_seed=True)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"bits": self._widths.get_config(), "block_size": self._block_size, "seed": self.seed}

    def for_budget(self) -> Encoder:
        """With bits that can be shared out."""
        from fedplug.encoders.quantizers.mixed_qsgd import (
            MixedQSGD,  # made of encoders of this kind, so it knows them
        )

        return MixedQSGD(self._widths.bits, block_size=self._block_size, seed=self.seed)

    def with_bits(self, bits: tf.Tensor) -> Self:
        """This encoder, for a tensor or a round, with the bits that a scalar holds.

        Args:
            bits: int32 scalar, 2 to 8, or those of some round where there is a schedule; so the result
                belongs to a graph, and has no configuration.
        """
        adjusted = copy.copy(self)
        adjusted._bits = bits
        return adjusted

    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """With the bits of the round."""
        if self._changes:
            return self.with_bits(self._widths.of(round_num)).quantize(values, round_num)
        return super().quantize(values, round_num)

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """With the bits that the payload says it has, if they are those of some round."""
        if not self._changes:
            return super().from_bytes(data, count, dtype)
        with require(tf.size(data) > 0, "a qsgd payload is too short to hold its bits"):
            bits = tf.cast(data[0], tf.int32)
        with require(
            tf.reduce_any(bits == self._widths.all),
            f"a qsgd payload was not made with the bits of any round, {self._widths.all}",
        ):
            return self.with_bits(tf.identity(bits)).from_bytes(data, count, dtype)

    @property
    def _changes(self) -> bool:
        """Whether the round decides the bits: not where `with_bits` has."""
        return len(self._widths.all) > 1 and isinstance(self._bits, int)

    @property
    def value_code(self) -> Mapping[str, Any]:
        """See `fedplug.ops.encode_values`."""
        return {"form": "qsgd", "bits": self._bits, "block_size": self._block_size}

    def symbols(self, count: tf.Tensor | int, dtype: tf.DType) -> PackedSymbols | None:
        """The levels, where all rounds have the same bits: entropy coders are told how many there are."""
        if self._changes or not isinstance(self._bits, int):
            return None
        return PackedSymbols(self._levels_at(count, dtype), count, self._bits)

    def of_value_code(self, op: Callable[[Mapping[str, Any]], tf.Tensor]) -> tf.Tensor:
        """Where the bits are in a scalar, the op is in the graph for every number of them there can be."""
        return self._of_bits(lambda bits: op({**self.value_code, "bits": bits}))

    def to_parts(self, values: tf.Tensor, round_num: tf.Tensor) -> Parts:
        """``{"levels": int8[n] in [-L, L], "scales": dtype[blocks]}``."""
        relative, scales = block_scaling.relative_to_scales(widened(values), self._block_size)
        exact = relative * tf.cast(_highest(self._bits), relative.dtype)
        below = tf.floor(exact)
        noise = tf.cast(dither(values, self.seed, round_num), exact.dtype)
        levels = below + tf.cast(noise < exact - below, exact.dtype)
        return {"levels": tf.cast(levels, tf.int8), "scales": tf.cast(scales, values.dtype)}

    def from_parts(self, parts: Parts, dtype: tf.DType) -> tf.Tensor:
        """``scale * (level / L)``."""
        scales = widened(parts["scales"])
        relative = self._of_bits(
            lambda bits: block_scaling.evenly_spaced(parts["levels"], _highest(bits), scales.dtype)
        )
        return tf.cast(block_scaling.times_scales(relative, scales, self._block_size), dtype)

    def pack(self, parts: Parts) -> tf.Tensor:
        """See the class."""
        codes = tf.cast(tf.cast(parts["levels"], tf.int32) + _highest(self._bits), tf.uint8)
        scales = serialization.to_bytes(parts["scales"])
        packed = self._of_bits(lambda bits: bit_packing.pack(codes, bits))
        return tf.concat([self._header(), scales, packed], axis=0)

    def code_bytes(self, count: Any, bits: Any, dtype: tf.DType) -> Any:
        """How many bytes `pack` makes of so many values with so many bits; numbers, or scalars."""
        return self._levels_at(count, dtype) + bit_packing.packed_size(count, bits)

    def unpack(self, code: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Parts:
        """Refuses another configuration or length, scales that are not valid, and levels beyond L."""
        codes_at = self._levels_at(count, dtype)
        bits = f"bits={self._bits}" if isinstance(self._bits, int) else "the bits it says"
        with require(tf.size(code) >= codes_at, "a qsgd payload is too short to hold its scales"):
            code = tf.identity(code)
        with require(
            tf.reduce_all(code[:_HEADER_BYTES] == self._header()),
            f"a qsgd payload was not made with {bits} and block_size={self._block_size}",
        ):
            scales = block_scaling.scales_from_bytes(code[_HEADER_BYTES:codes_at], dtype, "a qsgd payload")
        codes = self._of_bits(lambda bits: bit_packing.unpack(code[codes_at:], count, bits, _WHAT))
        highest = _highest(self._bits)
        levels = tf.cast(codes, tf.int32) - highest
        with require(tf.reduce_all(levels <= highest), f"{_WHAT} hold a level that does not exist"):
            return {"levels": tf.cast(levels, tf.int8), "scales": scales}

    def _levels_at(self, count: Any, dtype: tf.DType) -> Any:
        """Where the levels begin."""
        return _HEADER_BYTES + block_scaling.block_count(count, self._block_size) * dtype.size

    def _header(self) -> tf.Tensor:
        return tf.cast(tf.stack([self._bits, self._block_size.bit_length() - 1]), tf.uint8)

    def _of_bits(self, do: Callable[[int], tf.Tensor]) -> tf.Tensor:
        """``do(bits)``; traced for every number of bits there can be, where a scalar holds them."""
        if isinstance(self._bits, int):
            return do(self._bits)
        scheduled = self._widths.all
        possible = scheduled if len(scheduled) > 1 else range(LEAST_BITS, MOST_BITS + 1)
        position = tf.math.count_nonzero(tf.less(list(possible), self._bits), dtype=tf.int32)
        return tf.switch_case(position, [partial(do, bits) for bits in possible])


def _highest(bits: Any) -> Any:
    """L, of a number or a scalar."""
    return 2 ** (bits - 1) - 1
