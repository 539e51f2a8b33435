"""The names of dtypes in messages, and where the exponents of their elements are."""

from __future__ import annotations

import re
import sys
from typing import Any

import ml_dtypes
import numpy as np

from fedplug.errors import ArgumentError, PayloadError

__all__ = ["dtype_name", "dtype_of", "layout_of"]

_NUMPY_NAME = re.compile(r"[<>|][biufcmMSUV][0-9]{1,9}(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?")
_WORDS = (1, 2, 4, 8)
_AS_BYTES = (1, 7)
_finfo: Any = ml_dtypes.finfo  # it has no annotations


def dtype_name(dtype: np.dtype[np.generic]) -> str:
    """Returns the name of a dtype in a message: ``'<f4'`` as in NumPy, or ``'bfloat16'`` as in ml_dtypes.

    Raises:
        ArgumentError: Its elements are Python objects, records or empty.
    """
    if _is_of_ml_dtypes(dtype):
        return str(dtype.name)
    name = dtype.str
    if not dtype.itemsize or dtype.hasobject or dtype.names or not _NUMPY_NAME.fullmatch(name):
        raise ArgumentError(
            f"an array of dtype {dtype} has no exact bytes; pass its fields or numbers instead"
        )
    return name


def dtype_of(name: str) -> np.dtype[np.generic]:
    """Returns the dtype of an untrusted name.

    Raises:
        PayloadError: There is no such dtype here.
    """
    kind: Any = getattr(ml_dtypes, name, None)
    if not isinstance(kind, type):
        kind = name if _NUMPY_NAME.fullmatch(name) else ""
    try:
        dtype: np.dtype[np.generic] = np.dtype(kind)
        if dtype_name(dtype) == name:
            return dtype
    except (TypeError, ValueError):
        pass
    raise PayloadError(f"the difference is of dtype {name!r}, which is unknown here; is ml_dtypes too old?")


def layout_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Returns the bytes of a word and the bits below its exponent, for `fedplug.kernels.encode_difference`.

    A word is an element; of a complex number it is a part, and of any other dtype a byte.
    """
    if _is_of_ml_dtypes(dtype):
        size = dtype.itemsize
        try:
            return size, int(_finfo(dtype).nmant)
        except ValueError:  # an integer
            return size, 8 * size - 1
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if size not in _WORDS or not _is_little_endian(dtype):
        return _AS_BYTES
    if dtype.kind in "fc":
        return size, int(np.finfo(dtype).nmant)
    return (size, 8 * size - 1) if dtype.kind in "biumM" else _AS_BYTES


def _is_of_ml_dtypes(dtype: np.dtype[np.generic]) -> bool:
    kind = getattr(ml_dtypes, dtype.name, None)
    return isinstance(kind, type) and np.dtype(kind) == dtype


def _is_little_endian(dtype: np.dtype[np.generic]) -> bool:
    return dtype.str[0] in "<|" and sys.byteorder == "little"
