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

__all__ = ["donate_residuals", "own", "place_for", "residuals_in", "results_in", "take_result"]

_spare: contextvars.ContextVar[list[NDArray[Any]] | None] = contextvars.ContextVar("fedplug_spare")
"""Arrays for new residuals; None: the old ones were donated."""

_NONE_SPARE: list[NDArray[Any]] = []

_result: contextvars.ContextVar[NDArray[Any] | None] = contextvars.ContextVar("fedplug_result", default=None)


class _Set:
    """Sets a context variable within a ``with`` block; for every array, so quicker than a generator would."""

    def __init__(self, variable: contextvars.ContextVar[Any], value: Any) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *error: object) -> None:
        self._variable.reset(self._token)


def donate_residuals() -> AbstractContextManager[None]:
    """Within the ``with`` block, ops on NumPy arrays write new residuals over those they are given."""
    return _Set(_spare, None)


def residuals_in(spare: list[NDArray[Any]]) -> AbstractContextManager[None]:
    """Within the ``with`` block, ops on NumPy arrays take arrays out of this list for new residuals.

    Twice as fast as over the old ones, of which every sum must be seen before the first is written.
    """
    return _Set(_spare, spare)


def results_in(out: NDArray[Any] | None) -> AbstractContextManager[None]:
    """Within the ``with`` block, the first op on NumPy arrays whose dense result fits ``out`` writes into it.

    A hint: whoever gives it looks where the result is in the end.
    """
    return _Set(_result, out)


def take_result(count: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Where a dense result of so many elements is wanted, once; None: in new memory."""
    out = _result.get()
    if out is None or out.size != count or out.dtype != dtype:
        return None
    _result.set(None)
    return out.reshape(-1)


def place_for(residual: NDArray[Any] | None, like: NDArray[Any]) -> NDArray[Any]:
    """Where the next residual goes: into this one where it was donated, else into new memory.

    Args:
        residual: Of the round before; None for none.
        like: Has its shape and dtype.
    """
    spare = _spare.get(_NONE_SPARE)
    if spare is None:
        return kernels.empty(like.shape, like.dtype) if residual is None else residual
    for position, array in enumerate(spare):
        if array.shape == like.shape and array.dtype == like.dtype:
            return spare.pop(position)
    return kernels.empty(like.shape, like.dtype)


def own(accumulator: NDArray[Any]) -> NDArray[Any]:
    """What an op may add to: the array itself where it was donated, else a copy of it."""
    return accumulator if _spare.get(_NONE_SPARE) is None else accumulator.copy()
