"""One client's (or the server's) state as bytes: a safetensors document, plain data without code."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from fedplug.errors import StoreError
from fedplug.stores.base import Tensors
from fedplug.stores.rules import check_mapping, check_text

__all__ = ["checked", "decode", "encode"]

_DTYPES: dict[str, np.dtype[Any]] = {
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
"""By themselves: to NumPy, ``"<f4"`` and ``"f4"`` can be two that are equal."""

# safetensors keeps the name "__metadata__" for itself; with a prefix, every name is free for tensors.
_PREFIX = "/"


def encode(tensors: Tensors, owner: str) -> bytes:
    """The safetensors document of ``tensors``.

    Raises:
        StoreError: As `checked`.
    """
    arrays = checked(tensors, owner)
    return safetensors.numpy.save({_PREFIX + name: array for name, array in arrays.items()})


def checked(tensors: Tensors, owner: str) -> dict[str, np.ndarray[Any, Any]]:
    """``tensors`` as they come back from a store: contiguous and little-endian; perhaps the same arrays.

    Raises:
        StoreError: It is no mapping, a name is not text, or a dtype cannot be stored.
    """
    check_mapping(f"{owner}: a state", "tensor names to arrays", tensors)
    return {check_text("tensor name", name): _plain(name, value, owner) for name, value in tensors.items()}


def decode(blob: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a document made by `encode`; each owns its memory and may be written to."""
    return {
        name.removeprefix(_PREFIX): np.frombuffer(part["data"], _DTYPES[part["dtype"]]).reshape(part["shape"])
        for name, part in safetensors.deserialize(blob)  # type: ignore[no-untyped-call]
    }


def _plain(name: str, value: Any, owner: str) -> np.ndarray[Any, Any]:
    """``value`` as safetensors wants it: contiguous and little-endian."""
    array = np.asarray(value)
    dtype = _STORABLE.get(array.dtype.newbyteorder("<"))
    if dtype is None:
        known = ", ".join(sorted(str(known) for known in _STORABLE))
        raise StoreError(
            f"{owner}: tensor {name!r} has dtype {array.dtype}, which a store cannot hold; it can: {known}"
        )
    return np.asarray(array, dtype=dtype, order="C")
