"""The CRC-32 checksum."""

from __future__ import annotations

import numpy as np

import fedplug.kernels as kernels
from fedplug.kernels.arguments import whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array, Scalar

__all__ = ["crc32"]


@also_on(tensors=lambda: _tensorflow.checksum.crc32)
def crc32(data: Array, *, lowering: str | None = None) -> Scalar:
    """Computes the CRC-32 of zlib, PNG and Ethernet.

    Args:
        data: ``[bytes]``, uint8.
        lowering: See `fedplug.ops`.

    Returns:
        The checksum. Scalar, uint32.
    """
    return np.uint32(kernels.crc32(whole_numbers("data", data, np.uint8)))
