"""What counts as an array: NumPy's, and those of other libraries without a copy. Must not know encoders."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import ml_dtypes  # noqa: F401  # teaches NumPy the name bfloat16
import numpy as np
from numpy.typing import NDArray

from fedplug import kernels, ops, wire
from fedplug.errors import ArgumentError

__all__ = ["DTYPES", "DTYPE_NAMES", "FLOATING", "as_array", "require_output"]

DTYPES = {name: np.dtype(name) for name in wire.DTYPE_CODES}
"""Those that have a place in a payload, by name; NumPy takes microseconds to find out either."""

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

FLOATING = frozenset(filter(ops.is_floating, DTYPE_NAMES))


def as_array(value: Any) -> NDArray[Any]:
    """A C-contiguous array of native byte order, of a dtype that has a place in a payload.

    NumPy arrays and what has ``__dlpack__`` (PyTorch, JAX; on the CPU, bfloat16 too) or else ``__array__``
    are taken without a copy, but a NumPy array that is not C-contiguous or not aligned, which is copied.

    Raises:
        ArgumentError: It is none of these, of another byte order, or of a dtype that no payload has.
    """
    if type(value) is not np.ndarray:
        value = _seen_as_array(value)
    if value.dtype not in DTYPE_NAMES:
        _refuse(value.dtype)
    array: NDArray[Any] = value
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def _refuse(dtype: np.dtype[Any]) -> NoReturn:
    if dtype.name in wire.DTYPE_CODES:  # so only the order of its bytes is another one
        other = "big" if sys.byteorder == "little" else "little"
        raise ArgumentError(f"the array is {other}-endian; pass array.astype('{dtype.name}')")
    known = ", ".join(wire.DTYPE_CODES)
    raise ArgumentError(f"an array of dtype {dtype.name} cannot be encoded; known: {known}")


def require_output(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raises ArgumentError unless ``out`` is an array that can be written over with such a result."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != dtype:
        found = f"{out.dtype}{list(out.shape)}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ArgumentError(f"out is {found}; the payload is of {dtype}{list(shape)}")
    if not out.flags.c_contiguous or not out.flags.writeable or not out.flags.aligned:
        raise ArgumentError("out is not C-contiguous, aligned and writable; pass np.empty(shape, dtype)")


def _seen_as_array(value: Any) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError("a masked array has elements that are none; pass array.filled(0), say")
    if isinstance(value, np.ndarray):  # a matrix is two-dimensional whatever one does with it
        return value.view(np.ndarray)
    if hasattr(value, "__dlpack__"):
        return kernels.from_dlpack(value)
    if hasattr(value, "__array__") or isinstance(value, int | float | list | tuple):
        try:
            return np.asarray(value)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"a {type(value).__name__} cannot be made an array: {error}") from error
    raise ArgumentError(
        f"a {type(value).__name__} is no array; pass a NumPy array, or one with __dlpack__ or __array__"
    )
