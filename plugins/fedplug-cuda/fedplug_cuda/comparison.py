"""A selection on the device beside the same on the CPU, for `fedplug doctor`."""

from __future__ import annotations

import numpy as np

from fedplug import kernels
from fedplug_cuda.library import DeviceError
from fedplug_cuda.memory import to_device
from fedplug_cuda.topk import grouped_topk_residual

__all__ = ["self_check"]


def self_check() -> str:
    """Selects 100 of 10,000 entries on device 0 and compares the bits with the CPU's.

    Returns:
        A short description of the result.

    Raises:
        DeviceError: The device refused the work, or its bits are not the CPU's.
    """
    update = np.random.default_rng(0).standard_normal(10_000, np.float32)
    values, indices = kernels.topk_residual(update, np.zeros_like(update), 100)
    found = grouped_topk_residual([to_device(update)], None, 100)
    if found.values.tobytes() != values.tobytes() or not np.array_equal(found.indices, indices):
        raise DeviceError("device 0 selects other entries than the CPU; update its driver, and report this")
    return "device 0 selects the entries that the CPU selects"
