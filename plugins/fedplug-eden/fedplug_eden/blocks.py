"""How long the blocks are that are rotated. Must not know how."""

from __future__ import annotations

from typing import Any

from fedplug.ops import also_on_tensors

__all__ = ["LARGEST", "PADDING", "SMALLEST", "block_size"]

SMALLEST, LARGEST = 2**7, 2**20
PADDING = 32


@also_on_tensors
def block_size(count: Any) -> Any:
    """How long the blocks are into which ``count`` elements are divided: a power of two.

    The largest, up to 2^20, that needs no more than ``count / 32`` zeros to fill the last block; but at least
    128, or as few as hold all elements.
    """
    sizes = [2**i for i in range(LARGEST.bit_length())]
    holding_all = next((size for size in sizes if size >= count), LARGEST)
    cheap = max(size for size in sizes if -count % size <= count // PADDING)
    return min(max(cheap, SMALLEST), holding_all)
