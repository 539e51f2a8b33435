"""`fedplug.ops.gather_sum` on a CUDA device: the entries come to the host, the residuals stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import NonFiniteError
from fedplug.kernels.arguments import whole_numbers
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import TakenFromSum
from fedplug_cuda.arrays import stream_handle
from fedplug_cuda.memory import to_device_of_each
from fedplug_cuda.sums import gathered, taken

__all__ = ["gather_finite_of_each", "take_from_sum_of_each"]


def gather_finite_of_each(xs: Sequence[DeviceArray], indices: Sequence[Any]) -> list[NDArray[Any]]:
    """See `fedplug.ops.gather_sum.gather_finite_of_each`."""
    try:
        return gathered(xs, _places(indices), stream_handle(None, xs[0]))
    except NonFiniteError as error:
        raise NonFiniteError("the update holds a NaN or an infinity", count=error.count) from None


def take_from_sum_of_each(
    deltas: Sequence[DeviceArray], residuals: Sequence[Any], indices: Sequence[Any]
) -> list[TakenFromSum]:
    """See `fedplug.ops.gather_sum.take_from_sum_of_each`."""
    stream, before = to_device_of_each(deltas, residuals)
    return taken(deltas, before, _places(indices), stream)


def _places(indices: Sequence[Any]) -> list[NDArray[np.int32]]:
    return [whole_numbers("indices", each, np.int32) for each in indices]
