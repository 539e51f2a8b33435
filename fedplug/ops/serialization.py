"""Tensors as little-endian bytes and back, and numbers as LEB128."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug.errors import PayloadError
from fedplug.ops._dispatch import Array, also_on_tensors

_VARINT_BYTES = 5

__all__ = ["from_bytes", "to_bytes", "varints_from_bytes", "varints_to_bytes"]


@also_on_tensors
def to_bytes(x: Array) -> Array:
    """The elements in row-major order, little-endian: a uint8 vector of ``size * itemsize`` bytes."""
    x = np.ascontiguousarray(x)
    return x.reshape(-1).view(np.uint8)


@also_on_tensors
def from_bytes(data: Array, dtype: Any) -> Array:
    """The inverse of `to_bytes`, as a vector.

    Raises:
        tf.errors.InvalidArgumentError: The number of bytes is no multiple of the item size, or a bool is not
        0 or 1.
    """
    dtype = np.dtype(dtype)
    if data.size % dtype.itemsize:
        raise PayloadError(f"the bytes on the wire are not whole {dtype.name} numbers")
    if dtype == np.bool_ and data.size and data.max() > 1:
        raise PayloadError("a bool on the wire is neither 0 nor 1")
    numbers = np.ascontiguousarray(data).view(dtype)
    return (
        numbers if numbers.flags.aligned else numbers.copy()
    )  # in the middle of a payload they may lie anywhere


@also_on_tensors
def varints_to_bytes(numbers: Array) -> Array:
    """Numbers in LEB128: seven bits a byte, the lowest first, the high bit set on all bytes but the last.

    Args:
        numbers: int32 vector ``[n]``, none below 0.

    Returns:
        uint8 vector, each number in the fewest bytes that hold it, one to five.
    """
    written = bytearray()
    for number in numbers:
        rest = int(number)
        while rest >= 128:
            written.append(rest & 127 | 128)
            rest >>= 7
        written.append(rest)
    return np.frombuffer(written, np.uint8)


@also_on_tensors
def varints_from_bytes(data: Array, count: int, what: str) -> tuple[list[Array], Array]:
    """The first ``count`` numbers of `varints_to_bytes`, and the bytes after them, from untrusted bytes.

    Args:
        data: uint8 vector.
        count: How many numbers there must be.
        what: Names them in an error.

    Returns:
        int32 scalars, none below 0, and a uint8 vector.

    Raises:
        tf.errors.InvalidArgumentError: The bytes end before the numbers do, or a number is 2^31 or more, or
            not in its fewest bytes.
    """
    head, at = data[: count * _VARINT_BYTES].tobytes(), 0
    numbers = []
    for _ in range(count):
        number = 0
        for length in range(1, _VARINT_BYTES + 1):
            if at == len(head):
                raise PayloadError(f"{what} cannot be read")
            byte, at = head[at], at + 1
            number |= (byte & 127) << (7 * (length - 1))
            if byte < 128:
                break
        else:
            raise PayloadError(f"{what} are not in their fewest bytes, or too large")
        if number >= 2**31 or (length > 1 and byte == 0):
            raise PayloadError(f"{what} are not in their fewest bytes, or too large")
        numbers.append(number)
    return numbers, data[at:]
