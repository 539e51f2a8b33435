"""fedplug's CUDA kernels on the device arrays of any framework: PyTorch, CuPy, JAX, Numba.

Imports everywhere; `problem` says what a machine lacks. See README.md for an example.
"""

from fedplug_cuda.arrays import DeviceArray, as_device_array
from fedplug_cuda.fixed import encode_fixed, mean_of_fixed
from fedplug_cuda.library import DeviceError, problem
from fedplug_cuda.memory import to_device
from fedplug_cuda.scatter import scatter_decode_add
from fedplug_cuda.self_check import self_check
from fedplug_cuda.topk import grouped_topk_residual

__all__ = [
    "DeviceArray",
    "DeviceError",
    "as_device_array",
    "encode_fixed",
    "grouped_topk_residual",
    "mean_of_fixed",
    "problem",
    "scatter_decode_add",
    "self_check",
    "to_device",
]
