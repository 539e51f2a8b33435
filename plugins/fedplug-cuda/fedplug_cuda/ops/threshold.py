"""`fedplug.ops.threshold` on a CUDA device: the entries come to the host, the residuals stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedplug.kernels.arguments import real
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import AboveThreshold
from fedplug_cuda.memory import to_device_of_each
from fedplug_cuda.sums import taken_above

__all__ = ["threshold_residual", "threshold_residual_of_each"]


def threshold_residual(
    delta: DeviceArray, residual: Any, threshold: Any, *, lowering: None = None
) -> AboveThreshold:
    """See `fedplug.ops.threshold_residual`."""
    del lowering
    return threshold_residual_of_each([delta], [residual], [threshold])[0]


def threshold_residual_of_each(
    deltas: Sequence[DeviceArray], residuals: Sequence[Any], thresholds: Sequence[Any]
) -> list[AboveThreshold]:
    """See `fedplug.ops.threshold.threshold_residual_of_each`."""
    stream, before = to_device_of_each(deltas, residuals)
    return taken_above(deltas, before, [real("threshold", each) for each in thresholds], stream)
