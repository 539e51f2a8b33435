"""Eight bits per element: the nearest of 255 levels within each block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import MOST_LOG2_BLOCK_SIZE, check_block_size
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, DType

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Blockwise8"]

_HEADER_BYTES = 1


class Blockwise8(ValueFormQuantizer):
    """Rounds ``127 x / scale`` to int8, where ``scale`` is the block's largest magnitude; ties to even.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("blockwise8").encode(np.float32([127, -2.4, 0]))
    >>> fedplug.decode(payload)
    array([127.,  -2.,   0.], dtype=float32)

    Blocks limit the harm of an outlier to its neighbours. The error is deterministic and below ``scale /
    254``.

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
        """Makes the quantizer.

        Args:
            block_size: Number of elements that share a scale, a power of two.

        Raises:
            ConfigError: ``block_size`` is not a power of two.
        """
        check_block_size("blockwise8", block_size)
        self._block_size = block_size

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the block size from the start of the code."""
        if code.size < _HEADER_BYTES or code[0] > MOST_LOG2_BLOCK_SIZE:
            raise PayloadError("a blockwise8 payload does not say its block size, or too large a one")
        return cls(block_size=2 ** int(code[0]))

    def get_config(self) -> dict[str, Any]:
        return {"block_size": self._block_size}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": "blockwise8", "block_size": self._block_size}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the levels are, a byte each."""
        start = _HEADER_BYTES + ops.block_count(count, self._block_size) * ops.itemsize(dtype)
        return PackedSymbols(start, count, 8)
