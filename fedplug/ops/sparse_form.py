"""The body of a sparse payload. The layout is specified in csrc/core/sparse_form.h."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from fedplug.errors import ArgumentError, PayloadError

__all__ = ["sparse_body", "split_sparse_body"]

_LONGEST_NUMBER = 5
_NUMBERS_END = 2**31


def sparse_body(count: Any, index_code: Any, values: Any, *, lowering: str | None = None) -> Any:
    """The number of entries of a sparse payload, their index code and their values in one buffer.

    Given NumPy arrays, it is done at once; given TensorFlow tensors, or a ``lowering``, by a TensorFlow op.

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
    if lowering is not None or _any_tensor(count, index_code, values):
        from fedplug.ops._tensorflow import sparse_form

        return sparse_form.sparse_body(count, index_code, values, lowering)
    numbers = _to_leb128(int(count)) + _to_leb128(len(index_code))
    return np.concatenate([np.frombuffer(numbers, np.uint8), index_code, values])


def split_sparse_body(body: Any, size: Any, *, lowering: str | None = None) -> tuple[Any, Any, Any]:
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
    if lowering is not None or _any_tensor(body, size):
        from fedplug.ops._tensorflow import sparse_form

        return sparse_form.split_sparse_body(body, size, lowering)
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


def _any_tensor(*values: Any) -> bool:
    """Whether one of them is a tensor of TensorFlow, which then has been imported."""
    others = [value for value in values if not isinstance(value, np.ndarray | np.generic | int)]
    tf = sys.modules.get("tensorflow") if others else None  # to ask TensorFlow takes microseconds
    return tf is not None and any(map(tf.is_tensor, others))


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
