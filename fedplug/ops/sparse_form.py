"""The body of a sparse payload. The layout is specified in csrc/core/sparse_form.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug.errors import ArgumentError, PayloadError
from fedplug.ops._dispatch import Array, also_on_tensors

__all__ = ["sparse_body", "split_sparse_body"]

_LONGEST_NUMBER = 5
_NUMBERS_END = 2**31


@also_on_tensors
def sparse_body(count: Any, index_code: Array, values: Array, *, lowering: str | None = None) -> Array:
    """The number of entries of a sparse payload, their index code and their values in one buffer.

    Args:
        count: The number of entries, below 2^31; integer scalar.
        index_code: Where they are, uint8 vector.
        values: The bytes of their values, uint8 vector.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        uint8 vector.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        ArgumentError: With NumPy: ``count`` is out of range.
        tf.errors.InvalidArgumentError: With TensorFlow, when run: the same.
    """
    numbers = _to_leb128(int(count)) + _to_leb128(len(index_code))
    return np.concatenate([np.frombuffer(numbers, np.uint8), index_code, values])


@also_on_tensors
def split_sparse_body(body: Array, size: Any, *, lowering: str | None = None) -> tuple[Any, Array, Array]:
    """The inverse of `sparse_body`, for untrusted bytes.

    Args:
        body: uint8 vector.
        size: Of the tensor the entries are of; integer scalar.
        lowering: As for `sparse_body`.

    Returns:
        The number of entries, in ``[0, size]``, an int or an int32 scalar; the index code; the bytes of the
        values. With NumPy the latter are views of ``body``.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        PayloadError: With NumPy: the numbers cannot be read, are not in their fewest bytes, or do not fit the
            tensor or the body.
        tf.errors.InvalidArgumentError: With TensorFlow, when run: the same.
    """
    head = body[: 2 * _LONGEST_NUMBER].tobytes()
    count, code_at = _from_leb128(head, 0)
    code_bytes, code_at = _from_leb128(head, code_at)
    values_at = code_at + code_bytes
    if count > size or values_at > len(body):
        raise PayloadError(
            f"the lengths in a sparse payload do not fit the payload or the tensor: {count} entries and "
            f"{code_bytes} bytes of their index code, of {size} elements and {len(body)} bytes"
        )
    return count, body[code_at:values_at], body[values_at:]


def _to_leb128(number: int) -> bytes:
    if not 0 <= number < _NUMBERS_END:
        raise ArgumentError(
            f"a sparse payload has less than 2^31 entries and bytes of their index code, not {number}"
        )
    data = bytearray()
    while number >= 128:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def _from_leb128(data: bytes, begin: int) -> tuple[int, int]:
    """The number that begins there, and where the next byte is."""
    number = 0
    for place, byte in enumerate(data[begin : begin + _LONGEST_NUMBER]):
        number |= (byte & 127) << (7 * place)
        if byte < 128:
            if (byte == 0 and place > 0) or number >= _NUMBERS_END:
                raise PayloadError(
                    "the lengths in a sparse payload are not in their fewest bytes, or too large"
                )
            return number, begin + place + 1
    raise PayloadError("the lengths in a sparse payload cannot be read")
