"""Where ops on NumPy arrays may write: over a residual they are given, into the place of a result.

By default ops are functional: what comes in is not changed. Where the caller will not look at a residual
again, writing the next one over it saves memory of its size, and the time to fill it. (JAX calls this
donation.) In TensorFlow's graphs the runtime finds out by itself.
"""

from __future__ import annotations

import contextvars
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels

__all__ = ["donate_residuals", "own", "place_for", "result_place", "spare_residuals", "take_result"]

spare_residuals: contextvars.ContextVar[list[NDArray[Any]] | None] = contextvars.ContextVar("fedplug_spare")
"""Arrays for new residuals, which ops on NumPy arrays take out of the list: twice as fast as over the old
ones, of which every sum must be seen before the first is written. None: the old ones were donated."""

_NONE_SPARE: list[NDArray[Any]] = []

result_place: contextvars.ContextVar[NDArray[Any] | None] = contextvars.ContextVar(
    "fedplug_result", default=None
)
"""Where the first op on NumPy arrays writes whose dense result fits. A hint: whoever gives it looks where the
result is in the end."""


class _Donation:
    """For every array, so quicker than a generator would be."""

    __slots__ = ("_before", "_spare")

    def __init__(self, spare: list[NDArray[Any]] | None) -> None:
        self._spare = spare

    def __enter__(self) -> None:
        self._before = spare_residuals.set(self._spare)

    def __exit__(self, *error: object) -> None:
        spare_residuals.reset(self._before)


def donate_residuals(spare: list[NDArray[Any]] | None = None) -> AbstractContextManager[None]:
    """Within the ``with`` block, ops on NumPy arrays write new residuals over those they are given.

    Args:
        spare: Not over these, but into arrays that they take out of this list: see `spare_residuals`.
    """
    return _Donation(spare)


def take_result(count: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Where a dense result of so many elements is wanted, once; None: in new memory."""
    out = result_place.get()
    if out is None or out.size != count or out.dtype != dtype:
        return None
    result_place.set(None)
    return out.reshape(-1)


def place_for(residual: NDArray[Any] | None, like: NDArray[Any]) -> NDArray[Any]:
    """Where the next residual goes: into this one where it was donated, else into new memory.

    Args:
        residual: Of the round before; None for none.
        like: Has its shape and dtype.
    """
    spare = spare_residuals.get(_NONE_SPARE)
    if spare is None:
        return kernels.empty(like.shape, like.dtype) if residual is None else residual
    for position, array in enumerate(spare):
        if array.shape == like.shape and array.dtype == like.dtype:
            return spare.pop(position)
    return kernels.empty(like.shape, like.dtype)


def own(accumulator: NDArray[Any]) -> NDArray[Any]:
    """What an op may add to: the array itself where it was donated, else a copy of it."""
    return accumulator if spare_residuals.get(_NONE_SPARE) is None else accumulator.copy()
