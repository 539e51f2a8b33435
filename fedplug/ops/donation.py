"""Whether ops on NumPy arrays may write into the residuals they are given. Must not know any op.

By default ops are functional: what comes in is not changed. Where the caller will not look at a residual
again, writing the next one over it saves memory of its size, and the time to fill it. (JAX calls this
donation.) In TensorFlow's graphs the runtime finds out by itself.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["donate_residuals", "own", "place_for"]

_donated: contextvars.ContextVar[bool] = contextvars.ContextVar("fedplug_donated", default=False)


@contextlib.contextmanager
def donate_residuals() -> Iterator[None]:
    """Within the ``with`` block, ops on NumPy arrays write the new residual over the one they are given."""
    token = _donated.set(True)
    try:
        yield
    finally:
        _donated.reset(token)


def place_for(residual: NDArray[Any] | None, like: NDArray[Any]) -> NDArray[Any]:
    """Where the next residual goes: into this one where it was donated, else into new memory.

    Args:
        residual: Of the round before; None for none.
        like: Has its shape and dtype.
    """
    return residual if residual is not None and _donated.get() else np.empty(like.shape, like.dtype)


def own(accumulator: NDArray[Any]) -> NDArray[Any]:
    """What an op may add to: the array itself where it was donated, else a copy of it."""
    return accumulator if _donated.get() else accumulator.copy()
