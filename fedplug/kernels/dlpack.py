"""Arrays of other libraries as NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["from_dlpack"]


def from_dlpack(array: Any) -> NDArray[Any]:
    """Sees the memory of another library's array (PyTorch, JAX) as a NumPy array; nothing is copied.

    That is what :func:`numpy.from_dlpack` does, for bfloat16 too.

    Args:
        array: Has ``__dlpack__``; is on the CPU, C-contiguous, and of integers, bool, float16, bfloat16,
            float32 or float64.

    Returns:
        An array of the same shape on the same memory, which it keeps alive. It is read-only where the
        exporter says so, and where the exporter is older than DLPack 1.0 and cannot say.

    Raises:
        ArgumentError: ``array`` is none of that, or its library does not let others read it (a PyTorch tensor
            that requires a gradient); the message says what to pass instead.
    """
    return _kernels.from_dlpack(array)
