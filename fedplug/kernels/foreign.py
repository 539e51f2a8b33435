"""Reads arrays of NumPy and other libraries, and explains which ones cannot be read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError

__all__ = ["read_array", "require_dense", "require_names", "require_output"]

_LONGEST_NAME = 2**16 - 1


def require_names(names: Iterable[object]) -> None:
    """Raises ArgumentError if the name of an array is not a string, or cannot be sent."""
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"the name of an array is {name!r}; names are text, such as {str(name)!r}")
        try:
            length = len(name.encode())
        except UnicodeEncodeError as error:
            raise ArgumentError(f"the name of an array is {name!r}, which is not Unicode: {error}") from error
        if length > _LONGEST_NAME:
            raise ArgumentError(
                f"the name {name[:40]!r}... of an array has {length} bytes; at most {_LONGEST_NAME} can go"
            )


def require_output(out: object, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
    """Raises ArgumentError unless ``out`` is an array on the host that a result can be written to."""
    if not isinstance(out, np.ndarray) or (out.shape, out.dtype) != (shape, dtype):
        found_shape, found_dtype = getattr(out, "shape", None), getattr(out, "dtype", None)
        found = type(out).__name__ if found_shape is None else f"{found_dtype}{list(found_shape)}"
        raise ArgumentError(f"out is {found}; the result is {dtype}{list(shape)}")
    if not out.flags.carray:
        raise ArgumentError("out is not C-contiguous, aligned and writable; pass np.empty(shape, dtype)")


def read_array(value: object) -> NDArray[np.generic]:
    """Returns a NumPy array on the memory of ``value``; only strided tensors of PyTorch are copied.

    Dtypes that NumPy lacks, such as bfloat16, float8 and int4, are those of ml_dtypes.

    Args:
        value: A NumPy array, a PyTorch tensor on the CPU, an object with ``__dlpack__`` (JAX; on the CPU) or
            ``__array__``, or a number.

    Raises:
        ArgumentError: ``value`` is none of these. The message names the value to pass instead.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError("a masked array has missing elements; pass array.filled(0), for example")
    if isinstance(value, np.ndarray):  # a np.matrix would stay two-dimensional
        return value.view(np.ndarray)
    try:
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            require_dense(value)
            return _of_tensor(value.detach().resolve_conj().resolve_neg().contiguous())
        if hasattr(value, "__dlpack_device__"):
            _require_host(value)
        if hasattr(value, "__array__") or isinstance(value, int | float):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except ArgumentError:
        raise
    except Exception as error:  # other libraries have their own error types
        raise ArgumentError(f"a {type(value).__name__} cannot be converted to an array: {error}") from error
    several = "pass several arrays as a mapping by name"
    if isinstance(value, Mapping | list | tuple):
        several = (
            "flatten a nested model to a mapping of arrays by name, such as flax.traverse_util.flatten_dict("
            "model, sep='/') or {jax.tree_util.keystr(path, simple=True, separator='/'): x for path, x in "
            "jax.tree_util.tree_leaves_with_path(model)}"
        )
    raise ArgumentError(
        f"a {type(value).__name__} is not an array; pass a NumPy array, such as np.asarray(x, np.float32), "
        f"or one with __dlpack__ or __array__; {several}"
    )


def _of_tensor(tensor: Any) -> NDArray[np.generic]:
    """Returns an array on the memory of a dense contiguous tensor of PyTorch.

    Raises:
        TypeError: The tensor is on a device, or NumPy and ml_dtypes lack its dtype.
    """
    if not tensor.is_cpu:
        raise TypeError(f"it is on the device {tensor.device}; copy it to the CPU first")
    name = str(tensor.dtype).removeprefix("torch.")
    address = tensor.data_ptr() if tensor.numel() else 0
    memory = {"version": 3, "shape": (tensor.nbytes,), "typestr": "|u1", "data": (address, False)}
    # `tensor.numpy()` would make the storage of the tensor unresizable.
    array = np.asarray(SimpleNamespace(__array_interface__=memory, keeps=tensor))
    return array.view(_OF_ML_DTYPES.get(name) or np.dtype(name)).reshape(tuple(tensor.shape))


_OF_ML_DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
        *("float8_e8m0fnu", "int2", "int4", "uint2", "uint4"),
    )
    if hasattr(ml_dtypes, name)
}
"""Dtypes of PyTorch that NumPy lacks."""


_CPU = 1
"""The CPU as a device type of DLPack."""


def _require_host(value: Any) -> None:
    device = value.__dlpack_device__()[0]
    if device != _CPU:
        raise ArgumentError(
            f"the array is on a device of DLPack type {device}, not on the CPU; copy it to the CPU first"
        )


def require_dense(tensor: Any) -> None:
    """Raises ArgumentError unless a PyTorch tensor is one dense array on this rank."""
    if hasattr(tensor, "to_local"):
        raise ArgumentError("a DTensor lies on several ranks; pass tensor.to_local(), this rank's part")
    if tensor.is_nested:
        raise ArgumentError("a nested tensor has parts of several shapes; give each part a name of its own")
    if str(tensor.layout) != "torch.strided":
        raise ArgumentError(f"a tensor of layout {tensor.layout} cannot be encoded; pass tensor.to_dense()")
