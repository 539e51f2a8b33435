"""Loads the shared library of CUDA kernels, and raises its failures as fedplug's errors.

The library has a C ABI (csrc/cuda/abi/c_api.h) and is called through ctypes: one wheel then serves every
Python, and a call costs a few microseconds beside kernels that take tens.
"""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path

from fedplug.errors import ArgumentError, FedplugError, NonFiniteError

__all__ = [
    "LIBRARY_VARIABLE",
    "DeviceError",
    "FixedForm",
    "NonFiniteCount",
    "ScaledSum",
    "ScatterReport",
    "TopKReport",
    "Update",
    "ValueCode",
    "Vector",
    "call",
    "last_error",
    "library",
    "problem",
]

LIBRARY_VARIABLE = "FEDPLUG_CUDA_LIBRARY"
"""Environment variable with the path of another library. Tests select the fake device with it."""

_ABI_VERSION = 9


class DeviceError(FedplugError, RuntimeError):
    """A CUDA device, its driver or its memory refused the work. The message names the thing to check."""


class Update(ctypes.Structure):
    """FedplugCudaUpdate: the addresses of one tensor of a selection."""

    _fields_ = (
        ("delta", c_void_p),
        ("residual_in", c_void_p),
        ("residual_out", c_void_p),
        ("n", c_int64),
    )


class ScaledSum(ctypes.Structure):
    """FedplugCudaScaledSum: the addresses and the factor of ``sum = delta + factor * residual``."""

    _fields_ = (
        ("delta", c_void_p),
        ("residual", c_void_p),
        ("sum", c_void_p),
        ("n", c_int64),
        ("factor", c_double),
    )


class FixedForm(ctypes.Structure):
    """FedplugCudaFixedForm: the form of payloads of a fixed size."""

    _fields_ = (("n", c_int64), ("k", c_int64), ("chunk", c_int64), ("bits", c_int32), ("dtype", c_int32))


class TopKReport(ctypes.Structure):
    """FedplugCudaTopKReport: the non-finite sums that the device found in one tensor."""

    _fields_ = (("non_finite", c_int64), ("first_non_finite", c_int64))


class Vector(ctypes.Structure):
    """FedplugCudaVector: the addresses of the values of one code, and of their residuals."""

    _fields_ = (
        ("values", c_void_p),
        ("residual_in", c_void_p),
        ("residual_out", c_void_p),
        ("count", c_int64),
    )


class ValueCode(ctypes.Structure):
    """FedplugCudaValueCode: the form of a code."""

    _fields_ = (("form", c_char_p), ("block_size", c_int64), ("bits", c_int32))


class NonFiniteCount(ctypes.Structure):
    """FedplugCudaNonFiniteCount: the non-finite values that the device found in one array."""

    _fields_ = (("count", c_uint32), ("first_from_end", c_uint32))


class ScatterReport(ctypes.Structure):
    """FedplugCudaScatterReport: the first flaw that the device found in payloads."""

    _fields_ = (("words", c_int64 * 7),)


_ERRORS: dict[int, type[FedplugError]] = {
    1: ArgumentError,
    2: NonFiniteError,
    3: ArgumentError,
    4: DeviceError,
}
"""The error of each StatusCode of csrc/core/base/status.h."""

_SIGNATURES = {
    "device_count": [POINTER(c_int32)],
    "topk_workspace_bytes": [c_int32, POINTER(Update), c_int64, c_int32, POINTER(c_uint64)],
    "topk_each": [
        c_int32, c_int32, POINTER(Update), POINTER(c_int64), c_int64,
        c_void_p, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p,
    ],
    "topk": [
        c_int32, c_int32, POINTER(Update), c_int64, c_int64,
        c_void_p, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
    ],
    "topk_judge": [POINTER(TopKReport), POINTER(Update), c_int64],
    "scatter_add": [
        c_int32, c_int32, c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int64,
        c_void_p, c_void_p, c_uint64, c_void_p, c_void_p,
    ],
    "scatter_judge": [POINTER(ScatterReport)],
    "entries": [c_int32, c_int32, c_void_p, c_int64, c_int64, c_void_p],
    "scaled_sum": [c_int32, c_int32, POINTER(ScaledSum), c_void_p, c_void_p],
    "chunked_topk": [
        c_int32, c_int32, POINTER(ScaledSum), c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p,
    ],
    "fixed_sizes": [POINTER(FixedForm), c_int64, POINTER(c_int64), POINTER(c_uint64), POINTER(c_uint64)],
    "fixed_encode": [
        c_int32, POINTER(FixedForm), c_void_p, c_void_p, c_void_p, c_float, c_void_p, c_void_p,
        c_void_p, c_void_p,
    ],
    "fixed_mean": [
        c_int32, POINTER(FixedForm), c_void_p, c_int64, c_void_p, c_void_p, c_void_p,
    ],
    "value_sizes": [c_int32, POINTER(ValueCode), c_int64, POINTER(c_uint64), POINTER(c_uint64)],
    "encode_values": [
        c_int32, c_int32, POINTER(Vector), POINTER(ValueCode), c_uint64,
        c_void_p, c_uint64, c_void_p, c_void_p, c_void_p,
    ],
    "values_judge": [POINTER(NonFiniteCount), c_int64],
    "decode_values": [
        c_int32, c_int32, c_int32, POINTER(ValueCode), c_void_p, c_int64, c_double, c_void_p, c_void_p,
    ],
    "fetch": [c_int32, c_void_p, c_void_p, c_uint64, c_void_p],
    "send": [c_int32, c_void_p, c_void_p, c_uint64, c_void_p],
    "copy": [c_int32, c_void_p, c_void_p, c_uint64, c_void_p],
    "zero": [c_int32, c_void_p, c_uint64, c_void_p],
    "allocate": [c_int32, POINTER(c_void_p), c_uint64, c_void_p],
    "release": [c_int32, c_void_p, c_void_p],
    "allocate_host": [POINTER(c_void_p), c_uint64],
    "release_host": [c_void_p],
}  # fmt: skip


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded.

    Raises:
        DeviceError: The library is missing, cannot be loaded, or has another ABI than this package.
    """
    path = os.environ.get(LIBRARY_VARIABLE) or str(Path(__file__).with_name("libfedplug_cuda.so"))
    try:
        loaded = ctypes.CDLL(path)
        loaded.fedplug_cuda_abi_version.restype = c_int32
        version = loaded.fedplug_cuda_abi_version()
    except (OSError, AttributeError) as error:
        raise DeviceError(
            f"the library of CUDA kernels cannot be loaded: {error}. Install the wheel of fedplug-cuda, or "
            "build it on a machine with nvcc: pip install ./plugins/fedplug-cuda"
        ) from None
    if version != _ABI_VERSION:
        raise DeviceError(
            f"{path} has version {version} of the ABI, and this fedplug-cuda needs {_ABI_VERSION}; "
            "reinstall fedplug-cuda"
        )
    for name, arguments in _SIGNATURES.items():
        function = getattr(loaded, f"fedplug_cuda_{name}")
        function.argtypes, function.restype = arguments, c_int32
    loaded.fedplug_cuda_last_error.restype = c_char_p
    loaded.fedplug_cuda_scatter_workspace_bytes.restype = c_uint64
    return loaded


def call(name: str, *arguments: object) -> None:
    """Calls ``fedplug_cuda_NAME`` and raises its failure.

    Raises:
        ArgumentError: The library refused an argument.
        NonFiniteError: A sum of delta and residual is NaN or infinite.
        DeviceError: The device or its driver refused the work.
    """
    loaded = library()
    code = getattr(loaded, f"fedplug_cuda_{name}")(*arguments)
    if code != 0:
        raise _ERRORS.get(code, DeviceError)(last_error())


def last_error() -> str:
    """The message of this thread's last failure."""
    message: bytes = library().fedplug_cuda_last_error()
    return message.decode(errors="replace")


def problem() -> str | None:
    """Names the reason that keeps this machine from running the kernels. None if nothing does."""
    count = c_int32()
    try:
        call("device_count", ctypes.byref(count))
    except DeviceError as error:
        return str(error)
    return None if count.value > 0 else "the driver sees no CUDA device"
