"""The compiled count-sketch on NumPy arrays, if the build found a compiler. See csrc/count_sketch.h."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np

import fedplug_sketch
from fedplug import kernels
from fedplug.ops import donation
from fedplug.ops.types import Array

__all__ = ["count_sketch", "estimate", "is_built"]

_FILE = "_count_sketch.so"
_POINTER, _INTEGER = ctypes.c_void_p, ctypes.c_int64


def is_built() -> bool:
    """Returns whether the kernel exists. NumPy gives the same bits more than ten times slower."""
    return _library() is not None


def count_sketch(x: Array, keys: Array, columns: int) -> Array:
    """See `fedplug_sketch.ops.count_sketch`."""
    _require(columns > 0 or not x.size, f"a table for {x.size} elements needs at least one column")
    table = kernels.empty((keys.size, columns), x.dtype)
    table.fill(0)
    x, keys = np.ascontiguousarray(x), np.ascontiguousarray(keys)
    if x.size:
        _call("count_sketch", x, x.size, keys, keys.size, columns, kernels.num_threads(), table)
    return table


def estimate(table: Array, keys: Array, size: int) -> Array:
    """See `fedplug_sketch.ops.estimate`."""
    _require(keys.shape == table.shape[:1] != (0,), f"{keys.size} keys for a table of {table.shape[0]} rows")
    _require(table.shape[1] > 0 or not size, f"a table without columns holds no {size} elements")
    estimates = donation.take_result(size, table.dtype)
    if estimates is None:
        estimates = kernels.empty((size,), table.dtype)
    table, keys = np.ascontiguousarray(table), np.ascontiguousarray(keys)
    if size:
        _call("estimate", table, keys, *table.shape, size, kernels.num_threads(), estimates)
    return estimates


def _require(condition: bool, message: str) -> None:
    """Checks an assumption of the kernel."""
    if not condition:
        raise ValueError(message)


@functools.cache
def _library() -> ctypes.CDLL | None:
    found = (Path(folder) / _FILE for folder in fedplug_sketch.__path__)
    path = next((path for path in found if path.exists()), None)
    return None if path is None else ctypes.CDLL(str(path))


def _call(name: str, first: Array, *rest: object) -> None:
    """Calls the function of that name for the dtype of its first argument."""
    function = getattr(_library(), f"{name}_{first.dtype.name}")
    arguments = (first, *rest)
    function.argtypes = [_POINTER if isinstance(each, np.ndarray) else _INTEGER for each in arguments]
    function.restype = ctypes.c_bool
    if not function(*(each.ctypes.data if isinstance(each, np.ndarray) else each for each in arguments)):
        raise MemoryError(f"no memory for {name}")
