"""Where decoded values go: a new array, or the caller's. Must not know what is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["output_array"]


def output_array(out: NDArray[Any] | None, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """``out``, or a new ``[count]`` array where it is None.

    Raises:
        ArgumentError: ``out`` is of another size or dtype.
    """
    if out is None:
        return np.empty(count, dtype)
    if out.dtype != dtype or out.size != count:
        raise ArgumentError(f"out has {out.size} elements of {out.dtype}; it must have {count} of {dtype}")
    return out
