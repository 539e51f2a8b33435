"""`fedplug.ops.topk_momentum` on a CUDA device: the entries come to the host, the state stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedplug.errors import ArgumentError
from fedplug.kernels.arguments import real, whole
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import TopKMomentum
from fedplug_cuda.memory import to_device_of_each
from fedplug_cuda.sums import momentum_topk

__all__ = ["topk_momentum", "topk_momentum_of_each"]


def topk_momentum(
    gradient: DeviceArray,
    velocity: Any,
    residual: Any,
    k: Any,
    *,
    momentum: Any,
    on_nonfinite: Any = "error",
    lowering: None = None,
) -> TopKMomentum:
    """See `fedplug.ops.topk_momentum`; NaN and infinite sums are refused always."""
    del lowering
    if on_nonfinite != "error":
        raise ArgumentError(f"on_nonfinite is {on_nonfinite!r}; on a device it must be 'error'")
    return topk_momentum_of_each([gradient], [velocity], [residual], [k], momentum=momentum)[0]


def topk_momentum_of_each(
    gradients: Sequence[DeviceArray],
    velocities: Sequence[Any],
    residuals: Sequence[Any],
    ks: Sequence[Any],
    *,
    momentum: float,
) -> list[TopKMomentum]:
    """See `fedplug.ops.topk_momentum.topk_momentum_of_each`."""
    if len({gradient.dtype for gradient in gradients}) > 1:
        each = zip(gradients, velocities, residuals, ks, strict=True)
        return [topk_momentum(*arguments, momentum=momentum) for arguments in each]
    stream, speeds = to_device_of_each(gradients, velocities)
    _, before = to_device_of_each(gradients, residuals)
    whole_ks = [whole("k", k) for k in ks]
    return momentum_topk(gradients, speeds, before, whole_ks, real("momentum", momentum), stream)
