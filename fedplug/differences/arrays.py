"""The message of one array: a container with the wire id ``diff/1``."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.wire as wire
from fedplug.differences.dtypes import dtype_name, dtype_of, layout_of
from fedplug.errors import ArgumentError, PayloadError
from fedplug.kernels.foreign import require_output

__all__ = ["WIRE_ID", "ArrayMessage", "as_bytes", "decode_array", "encode_array", "read_array_message"]

WIRE_ID = "diff/1"

_WHOLE, _CHANGES = 0, 1
_FIXED = struct.Struct("<BIIB")
"""The kind, the checksums of the old and the new bytes, and the length of the dtype's name."""


class ArrayMessage(NamedTuple):
    """The contents of an array's message, not yet decoded.

    Attributes:
        dtype: The dtype of the new array.
        shape: The shape of the new array.
        base: The CRC-32 of the bytes of the old array. None if the message needs none.
        result: The CRC-32 of the bytes of the new array.
        code: The code of `fedplug.kernels.encode_difference`.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    base: int | None
    result: int
    code: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """The bytes of the new array."""
        return math.prod(self.shape) * self.dtype.itemsize

    def require_place(self, place: object, old: NDArray[np.generic] | None) -> None:
        """Raises ArgumentError unless the new array can be written to another array than the old one."""
        require_output(place, self.shape, self.dtype)
        if old is not None and np.may_share_memory(place, old):
            raise ArgumentError("out shares memory with the old version, which is needed until the end")

    def apply(
        self, old: NDArray[np.generic] | None, place: NDArray[np.generic] | None = None
    ) -> NDArray[np.generic]:
        """Returns the new array, at a checked place or in new memory.

        Raises:
            PayloadError: ``old`` is not the array that the difference was made from, or the code is invalid.
        """
        before = None
        if self.base is not None:
            before = self._checked(old)
        new = kernels.empty((self.nbytes,), np.dtype(np.uint8)) if place is None else as_bytes(place)
        kernels.decode_difference(self.code, before, new, *layout_of(self.dtype))
        if kernels.crc32(new) != self.result:
            raise PayloadError("the decoded array has another checksum than the message says; it is corrupt")
        return new.view(self.dtype).reshape(self.shape) if place is None else place

    def _checked(self, old: NDArray[np.generic] | None) -> NDArray[np.uint8]:
        if old is None:
            raise PayloadError("the difference was made from an older version, and there is none here")
        if old.dtype != self.dtype or old.nbytes != self.nbytes:
            raise PayloadError(
                f"the base is {old.dtype}{list(old.shape)}, and the difference is to "
                f"{self.dtype}{list(self.shape)}: it was made from another version"
            )
        before = as_bytes(old)
        if kernels.crc32(before) != self.base:
            raise PayloadError(
                "the base is not the version that the difference was made from: their checksums differ; "
                "patch that version, or ask for the whole array"
            )
        return before


def encode_array(old: NDArray[np.generic] | None, new: NDArray[np.generic]) -> bytes:
    """Returns the message that turns one array into the other; of the new array alone if they do not fit.

    Raises:
        ArgumentError: The elements of ``new`` are Python objects, records or empty.
        PayloadError: It has more dimensions than a payload can have, or a longer one.
    """
    name = dtype_name(new.dtype).encode("ascii")
    after = as_bytes(new)
    before = as_bytes(old) if old is not None and old.dtype == new.dtype and old.size == new.size else None
    code = kernels.encode_difference(before, after, *layout_of(new.dtype))
    kind, base = (_WHOLE, 0) if before is None else (_CHANGES, kernels.crc32(before))
    fixed = _FIXED.pack(kind, base, kernels.crc32(after), len(name))
    return wire.frame([fixed + name, code], WIRE_ID, "uint8", new.shape)


def decode_array(
    payload: object,
    old: NDArray[np.generic] | None,
    max_bytes: float,
    place: NDArray[np.generic] | None = None,
) -> NDArray[np.generic]:
    """Returns the new array of an untrusted message, at a place or in new memory.

    Raises:
        PayloadError: It is not such a message, was made from another array than ``old``, or the new array has
            more than ``max_bytes``.
        ArgumentError: The new array cannot be written to this place.
    """
    message = read_array_message(payload)
    wire.require_room(message.nbytes, max_bytes)
    if place is not None:
        message.require_place(place, old)
    return message.apply(old, place)


def read_array_message(payload: Any) -> ArrayMessage:
    """Reads an untrusted message of an array, without decoding it.

    Raises:
        PayloadError: It is not such a message.
    """
    wire_id, _, shape, body = kernels.unframe(payload)
    if wire_id != WIRE_ID:
        raise PayloadError(
            f"the payload has the wire id {wire_id!r}; a difference of an array has {WIRE_ID!r}"
        )
    if body.size < _FIXED.size:
        raise PayloadError(f"the difference has {body.size} bytes, and at least {_FIXED.size} are needed")
    kind, base, result, length = _FIXED.unpack(body[: _FIXED.size].tobytes())
    name = body[_FIXED.size : _FIXED.size + length].tobytes()
    if kind not in (_WHOLE, _CHANGES) or len(name) < length or not name.isascii():
        raise PayloadError("the difference has an unknown kind, or its dtype cannot be read")
    dtype = dtype_of(name.decode("ascii"))
    wire.require_possible(shape, dtype.itemsize)
    return ArrayMessage(
        dtype=dtype,
        shape=shape,
        base=base if kind == _CHANGES else None,
        result=result,
        code=body[_FIXED.size + length :],
    )


def as_bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Returns the bytes of an array in row-major order, without a copy if they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
