"""Arrays that a codec accepts: NumPy arrays, and arrays of other libraries without a copy."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import ml_dtypes  # noqa: F401  # registers bfloat16 with NumPy
import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.errors import ArgumentError
from fedplug.kernels import foreign
from fedplug.kernels.foreign import read_array, require_names
from fedplug.ops.device_array import is_on_device

__all__ = [
    "DTYPES",
    "DTYPE_NAMES",
    "FLOATING",
    "as_array",
    "named_arrays",
    "require_mapping",
    "require_output",
    "update_between",
]

DTYPES = {name: np.dtype(name) for name in wire.DTYPE_CODES}
"""The dtypes that a payload can have, by name; a table, because NumPy takes microseconds to find either."""

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

FLOATING = frozenset(filter(ops.is_floating, DTYPE_NAMES))


def as_array(value: Any) -> NDArray[np.generic]:
    """Returns a C-contiguous array of native byte order, with a dtype that a payload can have.

    NumPy arrays and objects with ``__dlpack__`` (PyTorch, JAX; on the CPU, bfloat16 too) or ``__array__`` are
    read in place. An array that is not C-contiguous or not aligned is copied. PyTorch records no gradient. A
    `fedplug.ops.device_array.DeviceArray` is returned unchanged.

    Raises:
        ArgumentError: ``value`` is none of these, has another byte order or a dtype that no payload can
            have, or has 2^31 elements or more.
    """
    _require_size(value)
    if is_on_device(value):
        on_device: NDArray[np.generic] = value
        return on_device
    if type(value) is not np.ndarray:
        value = read_array(value)
    if value.dtype not in DTYPE_NAMES:
        _refuse(value.dtype)
    array: NDArray[np.generic] = value
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def update_between(
    after: NDArray[np.generic], before: NDArray[np.generic], dtype: np.dtype[np.generic]
) -> NDArray[np.generic]:
    """Returns ``after - before``, rounded to ``dtype``.

    An unchanged entry is 0 even if it is infinite or NaN, as in masks and sentinels.
    """
    wide = np.result_type(after, before, dtype, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # encoders refuse infinities and NaNs
        found = np.asarray(np.subtract(after, before, dtype=wide))
        if not np.isfinite(found).all():
            unchanged = (after == before) | (np.isnan(after) & np.isnan(before))
            found = np.where(unchanged, wide.type(0), found)
        return found.astype(dtype, copy=False)


def named_arrays(
    arrays: Any, read: Callable[[Any], NDArray[np.generic]] = as_array
) -> dict[str, NDArray[np.generic]]:
    """Reads the arrays of a model by name, each by `read`.

    Raises:
        ArgumentError: ``arrays`` is not a mapping, a name is not a string, or `read` refuses an array.
            The message names the array.
    """
    require_mapping("a model", "arrays", arrays)
    require_names(arrays)
    for name, array in arrays.items():  # check all sizes before an array is copied
        _named(name, _require_size, array)
    return {name: _named(name, read, array) for name, array in arrays.items()}


_REMEDIES = {
    "arrays": "; in PyTorch, pass dict(model.named_parameters())",
    "payloads": "; encode_model returns it together with a state",
}


def require_mapping(what: str, of: str, value: object) -> None:
    """Raises ArgumentError unless ``value`` is a mapping by name."""
    if type(value) is not dict and not isinstance(value, Mapping):
        remedy = _REMEDIES.get(of, "")
        raise ArgumentError(f"{what} is a mapping of {of} by name, not a {type(value).__name__}{remedy}")


def _named(name: str, read: Callable[[object], object], array: object) -> Any:
    try:
        return read(array)
    except ArgumentError as error:
        raise ArgumentError(f"array {name!r}: {error}") from error


def _require_size(value: object) -> None:
    """Raises ArgumentError for an array with more elements than kernels can count."""
    try:
        shape = None if getattr(value, "is_nested", False) else getattr(value, "shape", None)
    except RuntimeError as error:  # of a lazy parameter of PyTorch
        raise ArgumentError("its shape is not known; run a lazy model once first") from error
    if isinstance(shape, tuple) and math.prod(shape) > wire.MAX_ELEMENTS:
        raise ArgumentError(
            f"it has {math.prod(shape):,} elements, and an encoder takes at most {wire.MAX_ELEMENTS:,} "
            "(2^31 - 1); split it, and give each part a name of its own"
        )


def _refuse(dtype: np.dtype[np.generic]) -> NoReturn:
    if dtype.name in wire.DTYPE_CODES:  # only the byte order differs
        other = "big" if sys.byteorder == "little" else "little"
        raise ArgumentError(f"the array is {other}-endian; pass array.astype('{dtype.name}')")
    known = ", ".join(wire.DTYPE_CODES)
    raise ArgumentError(
        f"an array of dtype {dtype.name} cannot be encoded; known: {known}; fedplug.diff and a Broadcaster "
        "take any dtype"
    )


def require_output(out: Any, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
    """Raises ArgumentError unless a result can be written to ``out``, on the host or on a device."""
    if not is_on_device(out) or (out.shape, out.dtype) != (shape, dtype):
        foreign.require_output(out, shape, dtype)
