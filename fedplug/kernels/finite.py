"""Checks for NaN and infinity, in arrays and in untrusted bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fedplug._kernels as _kernels
from fedplug.types import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedplug.types import Array

__all__ = ["all_finite", "finite_from_bytes"]


def all_finite(values: Array) -> bool:
    """Whether no value is NaN or infinite. Allocates no memory.

    Args:
        values: Any shape, a floating dtype.

    Raises:
        ArgumentError: ``values`` cannot be used as an array.
    """
    return _kernels.all_finite(values)


def finite_from_bytes(data: Array, dtype: DType, *, out: Array | None = None) -> NDArray[Any]:
    """Reads finite values from untrusted bytes, which may be unaligned.

    Args:
        data: ``[bytes]`` uint8.
        dtype: The floating dtype of the values.
        out: An array for the values, of their number and dtype.

    Returns:
        ``out``; without it, a read-only array on the bytes themselves if they are aligned, or a copy.

    Raises:
        ArgumentError: An array cannot be used, or ``out`` has another size or dtype.
        PayloadError: The bytes are not whole values, or a value is NaN or infinite.
    """
    return _kernels.finite_from_bytes(data, dtype, out)
