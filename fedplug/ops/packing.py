"""Packs numbers of a few bits into bytes, and unpacks them.

Packed numbers follow each other without gaps, the first in the lowest bits. Unused bits are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fedplug.kernels as kernels
from fedplug.errors import PayloadError
from fedplug.kernels.arguments import whole, whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.checks import of_length
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["pack", "packed_size", "unpack"]


@also_on(tensors=lambda: _tensorflow.packing.packed_size)
def packed_size(count: Array | int, bits: Array | int) -> Any:
    """The number of bytes that ``count`` packed numbers of ``bits`` bits need: ``ceil(count * bits / 8)``."""
    return (whole("count", count, 0) * whole("bits", bits, 0) + 7) // 8


@also_on(tensors=lambda: _tensorflow.packing.pack)
def pack(codes: Array, bits: Array | int) -> Array:
    """Packs numbers into a uint8 vector ``[packed_size(n, bits)]``.

    Args:
        codes: Numbers below ``2^bits``. uint8 ``[n]``.
        bits: Bits per number, 1 to 8. Integer scalar.

    Raises:
        ArgumentError: A number has more bits, or ``bits`` is out of range.
    """
    return kernels.pack_symbols(np.ascontiguousarray(whole_numbers("codes", codes, np.uint8)), bits)


@also_on(tensors=lambda: _tensorflow.packing.unpack)
def unpack(data: Array, count: Array | int, bits: Array | int, what: str) -> Array:
    """Unpacks numbers from untrusted bytes.

    Args:
        data: uint8 vector.
        count: Number of packed numbers, below 2^31. Integer scalar.
        bits: Bits per number, 1 to 8. Integer scalar.
        what: The name of the bytes in an error.

    Raises:
        ArgumentError: ``count`` or ``bits`` is out of range.
        PayloadError: There are not ``packed_size(count, bits)`` bytes, or unused bits are set.
    """
    data = of_length(whole_numbers("data", data, np.uint8), packed_size(count, bits), what)
    try:
        return kernels.unpack_symbols(np.ascontiguousarray(data), count, bits)
    except PayloadError:
        raise PayloadError(f"{what} have unused bits that are set") from None
