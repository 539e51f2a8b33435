"""The CRC-32 of zlib."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._arguments import require_vectors
from fedplug.ops._reference import checksum as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["crc32"]

tf.no_gradient("Fedplug>Crc32")


def crc32(data: Any, *, lowering: str | None = None) -> tf.Tensor:
    """The CRC-32 of zlib, PNG and Ethernet.

    Args:
        data: Shape ``[bytes]``, uint8.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        The checksum; scalar, uint32.

    Raises:
        ValueError: ``data`` is not a vector.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
    """
    data = tf.convert_to_tensor(data, tf.uint8)
    require_vectors(data=data)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_crc32(data)
    return reference.crc32(data)
