"""Converts arrays of other libraries to NumPy arrays without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["from_dlpack"]


def from_dlpack(array: Any) -> NDArray[Any]:
    """Returns a NumPy array on the memory of another library's array (PyTorch, JAX), without a copy.

    Unlike :func:`numpy.from_dlpack`, it also accepts bfloat16.

    Args:
        array: An object with ``__dlpack__`` on the CPU, C-contiguous, of integers, bool, float16, bfloat16,
            float32 or float64.

    Returns:
        An array of the same shape, which keeps the memory alive. It is read-only if the exporter says so, and
        if the exporter is older than DLPack 1.0 and cannot say.

    Raises:
        ArgumentError: ``array`` does not meet these requirements, or its library does not export it (a
            PyTorch tensor that requires a gradient). The message says what to pass instead.
    """
    return _kernels.from_dlpack(array)
