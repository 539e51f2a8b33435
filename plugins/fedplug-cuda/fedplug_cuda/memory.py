"""Device memory in the caller's framework, and pinned host memory that is reused."""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.arrays import CudaArray, framework_of, stream_handle
from fedplug_cuda.library import DeviceError, call

__all__ = [
    "copy_of",
    "empty",
    "empty_bytes",
    "empty_like",
    "fetch",
    "on_device",
    "pinned",
    "room_for",
    "send",
    "to_device",
    "to_device_of_each",
    "to_host",
]

_ALIGNMENT = 256
_MOST_IDLE_BYTES = 2**28
"""Pinned bytes that are kept for later calls, in all."""


def empty(shape: tuple[int, ...], dtype: np.dtype[np.generic], like: DeviceArray, stream: int) -> DeviceArray:
    """A new array on the device of ``like``, allocated by the framework that owns it.

    PyTorch and CuPy allocate from their own pools. Others get memory of the CUDA driver's pool, as an object
    with ``__cuda_array_interface__``.

    Raises:
        DeviceError: The device has too little free memory.
    """
    framework = framework_of(like.owner)
    if framework in ("torch", "cupy"):
        module = sys.modules[framework]
        try:
            if framework == "torch":
                made = module.empty(shape, dtype=getattr(module, dtype.name), device=like.owner.device)
            else:
                made = module.empty(shape, dtype)
        except Exception as error:  # each framework has an error of its own for it
            raise DeviceError(f"no device memory for {dtype.name}{list(shape)}: {error}") from error
        pointer = made.data_ptr() if framework == "torch" else made.data.ptr
        return CudaArray(made, pointer, shape, dtype, like.device)
    nbytes = math.prod(shape) * dtype.itemsize
    memory = DeviceMemory(nbytes, like.device, stream, shape, dtype)
    return CudaArray(memory, memory.pointer, shape, dtype, like.device)


def empty_like(array: DeviceArray, stream: int) -> DeviceArray:
    """A new array of the shape and dtype of ``array``, as by `empty`."""
    return empty(array.shape, array.dtype, array, stream)


def empty_bytes(count: int, like: DeviceArray, stream: int) -> tuple[Any, int]:
    """Device memory of ``count`` bytes, aligned to 256: its owner, and its address.

    Raises:
        DeviceError: The device has too little free memory.
    """
    made = empty((count,), np.dtype(np.uint8), like, stream)
    return made.owner, made.pointer


class DeviceMemory:
    """Memory of the CUDA driver's pool, released, in the order of its stream, with the last reference."""

    def __init__(
        self, nbytes: int, device: int, stream: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> None:
        """Allocates.

        Args:
            nbytes: Number of bytes.
            device: Number of the device.
            stream: Handle of the stream in whose order it is allocated and released.
            shape: The shape that `__cuda_array_interface__` reports.
            dtype: The dtype that it reports.

        Raises:
            DeviceError: The device has too little free memory.
        """
        address = ctypes.c_void_p()
        call("allocate", device, ctypes.byref(address), max(nbytes, 1), stream)
        self.pointer = address.value or 0
        self.device = device
        self._stream = stream
        self._shape, self._dtype = shape, dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. bfloat16 has no name there and is reported as two raw bytes."""
        return {
            "version": 3,
            "shape": self._shape,
            "typestr": self._dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": self._stream or 1,
        }

    def __del__(self) -> None:
        if getattr(self, "pointer", 0):
            call("release", self.device, self.pointer, self._stream)


class _Pinned:
    """A block of pinned memory. Goes back to the pool with the last array that views it.

    Attributes:
        address: Address of the block.
        fetched_from: The owner and the address of the device memory that the block was copied from.
    """

    def __init__(self, address: int, capacity: int, size: int) -> None:
        self.address, self._capacity = address, capacity
        self.fetched_from: tuple[Any, int] | None = None
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }

    def __del__(self) -> None:
        _pool.give_back(self.address, self._capacity)


class _Pool:
    """Idle blocks by capacity, a power of two. Pinning memory takes longer than a selection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[int, list[int]] = {}
        self._idle_bytes = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        capacity = max(4096, 1 << max(size - 1, 0).bit_length())
        with self._lock:
            blocks = self._idle.get(capacity)
            address = blocks.pop() if blocks else None
            if address is not None:
                self._idle_bytes -= capacity
        if address is None:
            found = ctypes.c_void_p()
            call("allocate_host", ctypes.byref(found), capacity)
            address = found.value or 0
        return np.asarray(_Pinned(address, capacity, size))

    def give_back(self, address: int, capacity: int) -> None:
        with self._lock:
            keep = self._idle_bytes + capacity <= _MOST_IDLE_BYTES
            if keep:
                self._idle.setdefault(capacity, []).append(address)
                self._idle_bytes += capacity
        if not keep:
            call("release_host", address)


_pool = _Pool()


def pinned(size: int) -> NDArray[np.uint8]:
    """Pinned host memory of ``size`` bytes, for copies at the full speed of the bus."""
    return _pool.take(size)


def fetch(pointer: int, size: int, device: int, stream: int, *, keep: object = None) -> NDArray[np.uint8]:
    """Bytes of device memory, in pinned host memory, after all earlier work of the stream.

    Args:
        pointer: Address of the device memory.
        size: Number of bytes.
        device: Number of the device.
        stream: Handle of the stream.
        keep: The owner of the device memory, to keep it as long as the result lives: see `on_device`.

    Raises:
        DeviceError: An earlier kernel of the stream failed, or the copy did.
    """
    host = pinned(size)
    if size:
        call("fetch", device, host.ctypes.data, pointer, size, stream)
    if keep is not None:
        _block_of(host).fetched_from = keep, pointer
    return host


def on_device(array: NDArray[np.generic]) -> int | None:
    """The address in device memory of the result of `fetch` with ``keep``, or of a slice of it."""
    block = _block_of(array)
    if block is None or block.fetched_from is None:
        return None
    return block.fetched_from[1] + array.ctypes.data - block.address


def _block_of(array: object) -> Any:
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, _Pinned) else None


def to_device(array: NDArray[np.generic], device: int = 0, stream: int = 0) -> DeviceArray:
    """Copies a NumPy array to memory of the CUDA driver's pool.

    Args:
        array: float32, float64, float16 or bfloat16.
        device: Number of the CUDA device.
        stream: Handle of the stream on whose order the memory is allocated and released.

    Raises:
        DeviceError: There is no such device, or it has too little free memory.
    """
    host = np.asarray(array, order="C")
    memory = DeviceMemory(host.nbytes, device, stream, host.shape, host.dtype)
    if host.nbytes:
        call("send", device, memory.pointer, host.ctypes.data, host.nbytes, stream)
    return CudaArray(memory, memory.pointer, host.shape, host.dtype, device)


def to_device_of_each(
    likes: Sequence[DeviceArray], residuals: Sequence[object]
) -> tuple[int, list[DeviceArray | None]]:
    """The stream of the arrays, and a residual on the device for each of them.

    Args:
        likes: Arrays on one device, of the residuals' shapes and dtypes.
        residuals: Device arrays, NumPy arrays, which are copied there, or None. None stands for zeros.
    """
    stream = stream_handle(None, likes[0])
    each = zip(likes, residuals, strict=True)
    return stream, [_to_device_of(like, residual, stream) for like, residual in each]


def _to_device_of(like: DeviceArray, residual: object, stream: int) -> DeviceArray | None:
    if residual is None or isinstance(residual, DeviceArray):
        return residual
    host = np.asarray(residual)
    if not host.any():
        return None
    moved = empty(host.shape, host.dtype, like, stream)
    if host.nbytes:
        call("send", like.device, moved.pointer, host.ctypes.data, host.nbytes, stream)
    return moved


def to_host(array: DeviceArray) -> NDArray[np.generic]:
    """A copy in host memory, after the work that the framework of the array has queued on its stream."""
    host = fetch(array.pointer, array.nbytes, array.device, stream_handle(None, array))
    return host.view(array.dtype).reshape(array.shape)


def copy_of(array: DeviceArray, stream: int) -> DeviceArray:
    """A copy on the same device."""
    made = empty_like(array, stream)
    if array.nbytes:
        call("copy", array.device, made.pointer, array.pointer, array.nbytes, stream)
    return made


def room_for(parts: Sequence[NDArray[np.generic]], like: DeviceArray, stream: int) -> tuple[Any, list[int]]:
    """Allocates device memory for copies of arrays: its owner, and the address of each.

    Raises:
        DeviceError: The device has too little free memory.
    """
    offsets, size = layout([part.nbytes for part in parts])
    memory, pointer = empty_bytes(size, like, stream)
    return memory, [pointer + offset for offset in offsets]


def send(
    parts: Sequence[NDArray[np.generic]],
    like: DeviceArray,
    stream: int,
    room: tuple[object, list[int]] | None = None,
) -> tuple[Any, list[int]]:
    """Copies arrays to the device in one transfer: to the room for them, or as `room_for` returns it.

    Raises:
        DeviceError: The device has too little free memory, or the copy failed.
    """
    offsets, size = layout([part.nbytes for part in parts])
    staged = pinned(size)
    for offset, part in zip(offsets, parts, strict=True):
        staged[offset : offset + part.nbytes] = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
    memory, at = room or room_for(parts, like, stream)
    if size:
        call("send", like.device, at[0], staged.ctypes.data, size, stream)
    return memory, at


def layout(sizes: list[int]) -> tuple[list[int], int]:
    """Offsets of parts of these sizes, each aligned to 256 bytes, and the size of all."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    return offsets, end
