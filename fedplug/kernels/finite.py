"""Whether values are numbers, and those that bytes stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["all_finite", "finite_from_bytes"]


def all_finite(values: NDArray[Any]) -> bool:
    """Says whether no value is NaN or infinite; nothing is allocated.

    Args:
        values: Any shape, a floating dtype.

    Raises:
        ArgumentError: ``values`` cannot be used as an array.
    """
    return _kernels.all_finite(values)


def finite_from_bytes(
    data: NDArray[np.uint8], dtype: np.dtype[Any], *, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Takes bytes, which may lie anywhere, for values. Every byte is treated as hostile.

    Args:
        data: ``[bytes]`` uint8.
        dtype: Theirs, a floating one.
        out: As many values of that dtype, to be written over; after an error it holds anything.

    Returns:
        ``out``; without it the bytes themselves as a read-only array, where they are aligned, else a copy.

    Raises:
        ArgumentError: An array cannot be used, or ``out`` is of another size or dtype.
        PayloadError: The bytes are not whole values, or a value is NaN or infinite.
    """
    return _kernels.finite_from_bytes(data, dtype, out)
