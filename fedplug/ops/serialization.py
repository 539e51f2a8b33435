"""Bytes of arrays, and their checksum."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

import fedplug.kernels as kernels
from fedplug.errors import PayloadError
from fedplug.kernels.arguments import whole, whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array, Scalar

__all__ = ["crc32", "finite_from_bytes", "from_bytes", "to_bytes"]


@also_on(tensors=lambda: _tensorflow.serialization.to_bytes)
def to_bytes(x: Array) -> Array:
    """Writes the elements in row-major order, little-endian: a uint8 vector of ``size * itemsize`` bytes."""
    return np.asarray(x).ravel().view(np.uint8)


@also_on(tensors=lambda: _tensorflow.serialization.from_bytes)
def from_bytes(data: Array, dtype: DTypeLike) -> Array:
    """Reads a vector from bytes that `to_bytes` wrote.

    Raises:
        PayloadError: The number of bytes is not a multiple of the item size, or a bool is not 0 or 1.
    """
    dtype = np.dtype(dtype)
    if len(data) % dtype.itemsize:
        raise PayloadError(f"the bytes on the wire are not whole {dtype.name} numbers")
    if dtype == np.bool_ and len(data) and int(np.max(data)) > 1:
        raise PayloadError("a bool on the wire is neither 0 nor 1")
    numbers: NDArray[np.generic] = np.ascontiguousarray(data).view(dtype)
    if numbers.flags.aligned:
        return numbers
    place = take_result(numbers.size, dtype)  # within a payload, numbers may be unaligned
    if place is None:
        return numbers.copy()
    np.copyto(place, numbers)
    return place


@also_on(tensors=lambda: _tensorflow.serialization.finite_from_bytes)
def finite_from_bytes(data: Array, count: Array | int, dtype: DTypeLike) -> Array:
    """Reads floats from untrusted bytes, as `from_bytes` does.

    Args:
        data: uint8 vector.
        count: Number of values. Integer scalar.
        dtype: The floating dtype of the values.

    Returns:
        The finite values. ``[count]``.

    Raises:
        PayloadError: The number of bytes is wrong, or a value is NaN or infinite.
    """
    count, dtype = count if type(count) is int else whole("count", count), np.dtype(dtype)
    if len(data) != count * dtype.itemsize:
        whole("count", count)  # refuses more than 64 bits
        raise PayloadError(
            f"the bytes of raw values have the wrong length, {len(data)}; there must be "
            f"{count * dtype.itemsize}"
        )
    return kernels.finite_from_bytes(data, dtype, take_result(count, dtype))


@also_on(tensors=lambda: _tensorflow.serialization.crc32)
def crc32(data: Array, *, lowering: str | None = None) -> Scalar:
    """Computes the CRC-32 of zlib, PNG and Ethernet.

    Args:
        data: ``[bytes]``, uint8.
        lowering: See `fedplug.ops`.

    Returns:
        The checksum. Scalar, uint32.
    """
    return np.uint32(kernels.crc32(whole_numbers("data", data, np.uint8)))
