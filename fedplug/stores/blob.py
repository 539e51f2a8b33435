"""Serializes the state of one client or the server as a safetensors document: data without code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import ArrayLike, NDArray

from fedplug.errors import StoreError
from fedplug.stores.base import State, Tensors
from fedplug.stores.rules import check_mapping, check_text

__all__ = ["checked", "decode", "encode"]

_DTYPES: dict[str, np.dtype[np.generic]] = {
    code: np.dtype(scalar)
    for code, scalar in {
        "BOOL": np.bool_,
        "I8": np.int8,
        "I16": np.int16,
        "I32": np.int32,
        "I64": np.int64,
        "U8": np.uint8,
        "U16": np.uint16,
        "U32": np.uint32,
        "U64": np.uint64,
        "F16": np.float16,
        "F32": np.float32,
        "F64": np.float64,
        "C64": np.complex64,
        "BF16": ml_dtypes.bfloat16,
        "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E5M2": ml_dtypes.float8_e5m2,
    }.items()
}
_STORABLE = {dtype: dtype for dtype in _DTYPES.values()}
"""Maps each dtype to itself: NumPy may compare ``"<f4"`` and ``"f4"`` as equal but distinct objects."""

# safetensors reserves the name "__metadata__". The prefix frees every name for tensors.
_PREFIX = "/"


def encode(tensors: Tensors, owner: str) -> bytes:
    """Encodes ``tensors`` as a safetensors document.

    Raises:
        StoreError: The state is invalid. See `checked`.
    """
    arrays = checked(tensors, owner)
    return safetensors.numpy.save({_PREFIX + name: array for name, array in arrays.items()})


def checked(tensors: Tensors, owner: str) -> State:
    """Returns ``tensors`` as contiguous little-endian arrays. Possibly the same arrays.

    Raises:
        StoreError: ``tensors`` is not a mapping, a name is not text, or a dtype cannot be stored.
    """
    check_mapping(f"{owner}: a state", "tensor names to arrays", tensors)
    return {check_text("tensor name", name): _plain(name, value, owner) for name, value in tensors.items()}


def decode(blob: bytes) -> State:
    """Decodes a document made by `encode`. Each array owns its memory and is writable."""
    return {
        name.removeprefix(_PREFIX): np.frombuffer(part["data"], _DTYPES[part["dtype"]]).reshape(part["shape"])
        for name, part in safetensors.deserialize(blob)  # type: ignore[no-untyped-call]
    }


def _plain(name: str, value: ArrayLike, owner: str) -> NDArray[np.generic]:
    """Converts ``value`` to a contiguous little-endian array, as safetensors requires."""
    array = np.asarray(value)
    dtype = _STORABLE.get(array.dtype.newbyteorder("<"))
    if dtype is None:
        known = ", ".join(sorted(str(known) for known in _STORABLE))
        raise StoreError(
            f"{owner}: tensor {name!r} has dtype {array.dtype}, which a store cannot hold; use one of {known}"
        )
    return np.asarray(array, dtype=dtype, order="C")
