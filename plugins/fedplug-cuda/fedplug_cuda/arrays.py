"""Device arrays of any framework, seen as an address, a shape and a dtype."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

import ml_dtypes  # noqa: F401  # registers bfloat16 with NumPy
import numpy as np

from fedplug.errors import ArgumentError
from fedplug.ops.device_array import Backend, DeviceArray
from fedplug_cuda.library import DeviceError

__all__ = ["DTYPE_CODES", "CudaArray", "as_device_array", "stream_handle"]


@dataclass(frozen=True, slots=True)
class CudaArray(DeviceArray):
    """A C-contiguous array in the memory of a CUDA device. `as_device_array` makes it."""

    @property
    def backend(self) -> Backend:
        """The module `fedplug_cuda.ops`."""
        from fedplug_cuda import ops

        return ops


DTYPE_CODES = {
    np.dtype(name): code for code, name in enumerate(("float32", "float64", "float16", "bfloat16"))
}
"""FedplugCudaDtype of each dtype that the kernels take."""

_LEGACY_DEFAULT_STREAM = 1
"""The number that DLPack has for the stream with handle 0."""

_ON_CUDA = {2: "CUDA", 13: "CUDA managed"}
"""The device types of DLPack whose memory a CUDA device reads."""


def as_device_array(
    array: object, stream: int = 0, *, dtypes: Collection[np.dtype[np.generic]] = DTYPE_CODES
) -> DeviceArray:
    """Describes an array on a CUDA device, without a copy.

    Args:
        array: Any object with ``__dlpack__`` or ``__cuda_array_interface__`` (PyTorch, CuPy, JAX, Numba) that
            is C-contiguous, or a `DeviceArray`.
        stream: Handle of the stream that will use the memory. The producer orders its own work before it.
        dtypes: The dtypes to accept; by default those of the kernels.

    Raises:
        ArgumentError: ``array`` is not on a CUDA device, is not C-contiguous, requires a gradient, or is of
            another dtype.
    """
    found = array if isinstance(array, DeviceArray) else _described(array, stream)
    if found.dtype not in dtypes:
        _refuse_dtype(array, found.dtype.name, dtypes)
    return found


def _described(array: object, stream: int) -> DeviceArray:
    if framework_of(array) == "torch":
        return _from_torch(array)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, stream)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_interface(array)
    raise ArgumentError(
        f"a {type(array).__name__} is not an array on a CUDA device; pass one that has __dlpack__ or "
        "__cuda_array_interface__"
    )


def stream_handle(stream: object, like: DeviceArray) -> int:
    """The handle of a stream.

    Args:
        stream: A handle, a stream of PyTorch or CuPy, or an object with ``__cuda_stream__``. None is the
            current stream of the framework that owns ``like``, or else the legacy default stream.
        like: An array of the call.

    Raises:
        ArgumentError: ``stream`` is none of these.
    """
    if stream is None:
        return _current_stream(like)
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    for attribute in ("cuda_stream", "ptr", "handle"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise ArgumentError(
        f"stream is {stream!r}; pass a handle, a stream of PyTorch or CuPy, or an object with __cuda_stream__"
    )


def framework_of(owner: object) -> str:
    """The name of the top-level package that an array comes from."""
    return type(owner).__module__.partition(".")[0]


def _current_stream(like: DeviceArray) -> int:
    framework = framework_of(like.owner)
    if framework == "torch":
        return int(sys.modules["torch"].cuda.current_stream(like.device).cuda_stream)
    if framework == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return 0


class _DLDevice(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    """DLTensor of https://dmlc.github.io/dlpack."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DLPACK_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def _from_dlpack(array: Any, stream: int) -> DeviceArray:
    kind, number = array.__dlpack_device__()
    if kind not in _ON_CUDA:
        raise ArgumentError(
            f"a {type(array).__name__} is on the host or on another kind of device; move it to a CUDA device"
        )
    try:
        capsule = array.__dlpack__(stream=stream or _LEGACY_DEFAULT_STREAM)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ArgumentError(f"the {type(array).__name__} cannot be shared: {error}") from error
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    name = _DLPACK_KINDS.get(tensor.dtype.code, f"code{tensor.dtype.code}") + str(tensor.dtype.bits)
    _require_contiguous(array, shape, strides)
    # The capsule was not consumed, so it still owns the shared memory: the owner keeps both.
    return CudaArray(
        owner=_Owner(array, capsule) if framework_of(array) != "cupy" else array,
        pointer=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        dtype=_dtype(array, name),
        device=int(number),
    )


def _from_torch(tensor: Any) -> DeviceArray:
    """Reads a tensor's own attributes: a tenth of the time that DLPack takes, for models of many tensors."""
    if not tensor.is_cuda:
        raise ArgumentError(f"a tensor is on {tensor.device}; move it to a CUDA device")
    if tensor.requires_grad:
        raise ArgumentError("a tensor requires a gradient; pass tensor.detach()")
    shape = tuple(tensor.shape)
    if not tensor.is_contiguous():
        _require_contiguous(tensor, shape, tensor.stride())
    dtype = _of_torch.get(tensor.dtype)
    if dtype is None:
        dtype = _of_torch[tensor.dtype] = _dtype(tensor, str(tensor.dtype).removeprefix("torch."))
    return CudaArray(tensor, tensor.data_ptr(), shape, dtype, tensor.get_device())


_of_torch: dict[Any, np.dtype[np.generic]] = {}
"""Dtypes of PyTorch seen before, as NumPy's."""


@dataclass(frozen=True, slots=True)
class _Owner:
    array: Any
    capsule: Any


def _from_interface(array: Any) -> DeviceArray:
    """Reads https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html."""
    described = array.__cuda_array_interface__
    dtype, shape = np.dtype(described["typestr"]), tuple(described["shape"])
    strides, device = described.get("strides"), getattr(array, "device", 0)
    if strides is not None:
        strides = tuple(step // dtype.itemsize for step in strides)
    _require_contiguous(array, shape, strides)
    return CudaArray(
        owner=array,
        pointer=int(described["data"][0]),
        shape=shape,
        dtype=_dtype(array, dtype.name),
        device=device if isinstance(device, int) else 0,
    )


def _dtype(array: object, name: str) -> np.dtype[np.generic]:
    try:
        return np.dtype(name)
    except TypeError:
        _refuse_dtype(array, name, DTYPE_CODES)


def _refuse_dtype(array: object, name: str, dtypes: Collection[np.dtype[np.generic]]) -> NoReturn:
    known = ", ".join(known.name for known in dtypes)
    raise ArgumentError(f"a {type(array).__name__} of dtype {name} has no CUDA kernel; known: {known}")


def _require_contiguous(array: object, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    if strides is None or 0 in shape:
        return
    expected = 1
    for length, step in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and step != expected:
            raise ArgumentError(
                f"a {type(array).__name__} of shape {list(shape)} is not C-contiguous; pass a contiguous copy"
            )
        expected *= length


def require_same_device(arrays: list[DeviceArray]) -> int:
    """The number of the device that all arrays are on.

    Raises:
        DeviceError: They are on several devices.
    """
    devices = sorted({array.device for array in arrays})
    if len(devices) > 1:
        raise DeviceError(
            f"the arrays are on the CUDA devices {', '.join(map(str, devices))}; move the deltas and "
            "residuals of a call to one device"
        )
    return devices[0]
