"""Packs numbers of a few bits into bytes, and unpacks them.

Packed numbers follow each other without gaps, the first in the lowest bits. Unused bits are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug.errors import PayloadError
from fedplug.ops import _tensorflow
from fedplug.ops.checks import of_length
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["pack", "packed_size", "unpack"]


def packed_size(count: Any, bits: Any) -> Any:
    """The number of bytes that ``count`` packed numbers of ``bits`` bits need: ``ceil(count * bits / 8)``."""
    return count // 8 * bits + (count % 8 * bits + 7) // 8  # no step exceeds the result, so none overflows


@also_on(tensors=lambda: _tensorflow.packing.pack)
def pack(codes: Array, bits: Any) -> Array:
    """Packs numbers below ``2^bits``, uint8 ``[n]``, into a uint8 vector ``[packed_size(n, bits)]``.

    ``bits`` is 1 to 8, an int or an int64 scalar.
    """
    places = np.arange(bits, dtype=np.uint8)
    return np.packbits(np.asarray(codes, np.uint8)[:, np.newaxis] >> places & 1, bitorder="little")


@also_on(tensors=lambda: _tensorflow.packing.unpack)
def unpack(data: Array, count: Any, bits: Any, what: str) -> Array:
    """Unpacks numbers from untrusted bytes.

    Args:
        data: uint8 vector.
        count: Number of packed numbers.
        bits: Bits per number, 1 to 8.
        what: The name of the bytes in an error.

    Raises:
        PayloadError: There are not ``packed_size(count, bits)`` bytes, or unused bits are set.
    """
    data = of_length(np.asarray(data, np.uint8), packed_size(count, bits), what)
    found = np.unpackbits(data, bitorder="little")
    if found[count * bits :].any():
        raise PayloadError(f"{what} have unused bits that are set")
    places = np.arange(bits, dtype=np.uint8)
    return (found[: count * bits].reshape(count, bits) << places).sum(axis=1, dtype=np.uint8)
