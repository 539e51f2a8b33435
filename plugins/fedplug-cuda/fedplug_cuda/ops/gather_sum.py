"""`fedplug.ops.gather_sum` on a CUDA device: the entries come to the host, the residual stays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import TakenFromSum
from fedplug_cuda.memory import to_device_of_each
from fedplug_cuda.sums import gathered, taken

__all__ = ["gather_sum", "take_from_sum"]


def gather_sum(delta: DeviceArray, residual: Any, indices: Any, *, lowering: None = None) -> NDArray[Any]:
    """See `fedplug.ops.gather_sum`."""
    del lowering
    stream, (before,) = to_device_of_each([delta], [residual])
    return gathered(delta, before, np.asarray(indices, np.int32), stream)


def take_from_sum(delta: DeviceArray, residual: Any, indices: Any, *, lowering: None = None) -> TakenFromSum:
    """See `fedplug.ops.take_from_sum`."""
    del lowering
    stream, (before,) = to_device_of_each([delta], [residual])
    return taken(delta, before, np.asarray(indices, np.int32), stream)
