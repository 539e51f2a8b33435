"""`fedplug.ops.rotated_code` on a CUDA device: codes come to the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.arrays import stream_handle
from fedplug_cuda.rotated import encode

__all__ = ["encode_rotated"]


def encode_rotated(
    xs: Sequence[DeviceArray],
    words: tuple[int, int],
    levels: Sequence[float],
    block_sizes: Sequence[int],
    head: bytes,
) -> list[NDArray[np.uint8]]:
    """See `fedplug.ops.device_array.Backend`."""
    return encode(xs, words, levels, block_sizes, head, stream_handle(None, xs[0]))
