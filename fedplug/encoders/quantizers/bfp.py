"""Block floating point: few bits per element and an exponent per block, rounded to the nearest."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import fedplug.ops as ops
from fedplug.encoders.arguments import MOST_LOG2_BLOCK_SIZE, check_block_size, check_whole
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, DType
from fedplug.registry.specs import Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["BlockFloatingPoint"]

_LEAST_BITS, _MOST_BITS = 2, 8
_HEADER_BYTES = 2
_EXPONENT_BYTES = 2


class BlockFloatingPoint(ValueFormQuantizer):
    """Rounds each element to the nearest multiple of a power of two, which each block shares. Ties to even.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("bfp(3)").encode(np.float32([3, -1.4, 0.4]))
    >>> fedplug.decode(payload)
    array([ 3., -1.,  0.], dtype=float32)

    With ``L = 2^(bits-1) - 1``, the step is the smallest power of two for which the block's largest magnitude
    is at most ``(L + 1/2) step``, and the level is ``round(x / step)``. So a decoded tensor is encoded
    without error. As long as the largest magnitude stays between the same two powers of two, an entry does
    not change if it moves by less than its distance to the middle between two levels. If a model is sent
    again and again, few entries are new. See `fedplug.tff.process.broadcaster`.

    The error is deterministic and at most half a step, which is below ``scale / L``, where ``scale`` is the
    block's largest magnitude.

    Sources: Wilkinson, "Rounding Errors in Algebraic Processes", 1963, for block floating point. Rouhani et
    al., "Microscaling Data Formats for Deep Learning", 2023 (arXiv 2310.10537), of which this is MXINT8 with
    other bit widths and larger blocks.

    Wire form "bfp/1" (docs/wire-format.md): ``bits / 8 + 2 / block_size`` bytes per element, 1.004 for 8
    bits.

    Takes float16, bfloat16, float32 and float64. Denormal numbers become 0.
    """

    name: ClassVar[str] = "bfp"
    wire_id: ClassVar[str] = "bfp/1"

    def __init__(self, bits: int = 8, *, block_size: int = 512) -> None:
        """Makes the quantizer.

        Args:
            bits: Bits per element, 2 to 8.
            block_size: Number of elements that share an exponent, a power of two.

        Raises:
            ConfigError: An argument is out of range.
        """
        check_whole("bfp bits", bits, _LEAST_BITS, _MOST_BITS)
        check_block_size("bfp", block_size)
        self._bits = bits
        self._block_size = block_size

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, sends_every_entry=True)

    def get_config(self) -> dict[str, Any]:
        return {"bits": self._bits, "block_size": self._block_size}

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bit width and block size from the start of the code."""
        if (
            len(code) < _HEADER_BYTES
            or not _LEAST_BITS <= code[0] <= _MOST_BITS
            or code[1] > MOST_LOG2_BLOCK_SIZE
        ):
            raise PayloadError("a bfp payload does not say its bits and block size, or impossible ones")
        return cls(int(code[0]), block_size=2 ** int(code[1]))

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": "bfp", "bits": self._bits, "block_size": self._block_size}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the levels are."""
        del dtype
        blocks = ops.block_count(count, self._block_size)
        start = _HEADER_BYTES + blocks * _EXPONENT_BYTES
        return PackedSymbols(start, count, self._bits)
