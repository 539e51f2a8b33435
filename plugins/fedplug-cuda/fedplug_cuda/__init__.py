"""fedplug's CUDA kernels on the device arrays of any framework: PyTorch, CuPy, JAX, Numba.

Imports everywhere. `problem` names the part that a machine lacks. See README.md for an example. The public
names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug_cuda import ops
    from fedplug_cuda.arrays import CudaArray, as_device_array
    from fedplug_cuda.fixed import encode_fixed, mean_of_fixed
    from fedplug_cuda.library import DeviceError, problem
    from fedplug_cuda.memory import to_device
    from fedplug_cuda.scatter import scatter_decode_add
    from fedplug_cuda.topk import grouped_topk_residual, self_check

__all__ = [
    "CudaArray",
    "DeviceError",
    "as_device_array",
    "encode_fixed",
    "grouped_topk_residual",
    "mean_of_fixed",
    "ops",
    "problem",
    "scatter_decode_add",
    "self_check",
    "to_device",
]

_HOMES = {
    "CudaArray": "fedplug_cuda.arrays",
    "DeviceError": "fedplug_cuda.library",
    "as_device_array": "fedplug_cuda.arrays",
    "encode_fixed": "fedplug_cuda.fixed",
    "grouped_topk_residual": "fedplug_cuda.topk",
    "mean_of_fixed": "fedplug_cuda.fixed",
    "problem": "fedplug_cuda.library",
    "scatter_decode_add": "fedplug_cuda.scatter",
    "self_check": "fedplug_cuda.topk",
    "to_device": "fedplug_cuda.memory",
}

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, _HOMES)
