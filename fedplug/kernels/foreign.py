"""Reads arrays of NumPy and other libraries, and explains what cannot be read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError
from fedplug.kernels.dlpack import from_dlpack

__all__ = ["read_array", "require_dense", "require_names"]

_LONGEST_NAME = 2**16 - 1


def require_names(names: Iterable[Any]) -> None:
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


def read_array(value: Any) -> NDArray[Any]:
    """Returns a NumPy array on the memory of ``value``; only strided tensors of PyTorch are copied.

    Args:
        value: A NumPy array, a PyTorch tensor on the CPU, an object with ``__dlpack__`` (JAX; on the CPU) or
            ``__array__``, or a number.

    Raises:
        ArgumentError: ``value`` is none of these; the message says what to pass instead.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError("a masked array has missing elements; pass array.filled(0), for example")
    if isinstance(value, np.ndarray):  # a np.matrix would stay two-dimensional
        return value.view(np.ndarray)
    try:
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            require_dense(value)
            value = value.detach().resolve_conj().resolve_neg().contiguous()
        if hasattr(value, "__dlpack__"):
            return from_dlpack(value)
        if hasattr(value, "__array__") or isinstance(value, int | float):
            return np.asarray(value)
    except ArgumentError:
        raise
    except Exception as error:  # other libraries have their own error types
        raise ArgumentError(f"a {type(value).__name__} cannot be converted to an array: {error}") from error
    raise ArgumentError(
        f"a {type(value).__name__} is not an array; pass a NumPy array, such as np.asarray(x, np.float32), "
        "or one with __dlpack__ or __array__; pass several arrays as a mapping by name"
    )


def require_dense(tensor: Any) -> None:
    """Raises ArgumentError unless a PyTorch tensor is one dense array on this rank."""
    if hasattr(tensor, "to_local"):
        raise ArgumentError("a DTensor lies on several ranks; pass tensor.to_local(), this rank's part")
    if tensor.is_nested:
        raise ArgumentError("a nested tensor has parts of several shapes; give each part a name of its own")
    if str(tensor.layout) != "torch.strided":
        raise ArgumentError(f"a tensor of layout {tensor.layout} cannot be encoded; pass tensor.to_dense()")
