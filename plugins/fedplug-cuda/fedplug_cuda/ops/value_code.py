"""`fedplug.ops.value_code` on a CUDA device: codes come to the host, residuals stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.memory import to_device_of_each
from fedplug_cuda.values import encode

__all__ = ["encode_values"]


def encode_values(
    xs: Sequence[DeviceArray],
    residuals: Sequence[Any] | None,
    form: str,
    *,
    bits: int,
    block_size: int,
    seed: int,
) -> tuple[list[NDArray[np.uint8]], list[DeviceArray]]:
    """See `fedplug.ops.device_array.Backend`."""
    stream, before = to_device_of_each(xs, residuals or [None] * len(xs))
    return encode(xs, before if residuals else None, form, bits, block_size, seed, stream)
