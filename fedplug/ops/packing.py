"""Numbers of a few bits as bytes, and back.

Packed numbers follow one another without gaps, the first in the lowest bits; bits that are not needed are 0.
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
    """How many bytes ``count`` numbers of ``bits`` bits take: ``ceil(count * bits / 8)``."""
    return count // 8 * bits + (count % 8 * bits + 7) // 8  # never larger than the result: no overflow


@also_on(tensors=lambda: _tensorflow.packing.pack)
def pack(codes: Array, bits: Any) -> Array:
    """Numbers below ``2^bits``, a uint8 vector ``[n]``, as a uint8 vector ``[packed_size(n, bits)]``.

    ``bits`` is 1 to 8, a number or an int64 scalar.
    """
    places = np.arange(bits, dtype=np.uint8)
    return np.packbits(np.asarray(codes, np.uint8)[:, np.newaxis] >> places & 1, bitorder="little")


@also_on(tensors=lambda: _tensorflow.packing.unpack)
def unpack(data: Array, count: Any, bits: Any, what: str) -> Array:
    """The inverse of `pack`, for untrusted bytes.

    Args:
        data: uint8 vector.
        count: How many numbers there must be.
        bits: Of each number, 1 to 8.
        what: Names the bytes in an error.

    Raises:
        tf.errors.InvalidArgumentError: Not ``packed_size(count, bits)`` bytes, or unused bits are set.
    """
    data = of_length(np.asarray(data, np.uint8), packed_size(count, bits), what)
    found = np.unpackbits(data, bitorder="little")
    if found[count * bits :].any():
        raise PayloadError(f"{what} have unused bits that are set")
    places = np.arange(bits, dtype=np.uint8)
    return (found[: count * bits].reshape(count, bits) << places).sum(axis=1, dtype=np.uint8)
