"""Memory that ops on NumPy arrays may overwrite: donated residuals, and arrays for results.

By default ops do not change their arguments. If the caller does not use a residual again, an op can overwrite
it with the next one, which saves memory and the time to fill it. JAX calls this donation. In a graph the
TensorFlow runtime finds such buffers by itself.
"""

from __future__ import annotations

import contextvars
import operator
from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.types import Array, DType

__all__ = [
    "donate_residuals",
    "own",
    "place_for",
    "places_for",
    "result_place",
    "spare_residuals",
    "take_result",
]

spare_residuals: contextvars.ContextVar[list[NDArray[np.generic]] | None] = contextvars.ContextVar(
    "fedplug_spare"
)
"""Arrays that ops on NumPy arrays take from the list for new residuals. None donates the old ones.

Writing elsewhere is twice as fast as overwriting: an op that overwrites must check every sum first."""

_NONE_SPARE: list[NDArray[np.generic]] = []
_shape, _dtype = operator.attrgetter("shape"), operator.attrgetter("dtype")

result_place: contextvars.ContextVar[NDArray[np.generic] | None] = contextvars.ContextVar(
    "fedplug_result", default=None
)
"""The array for the next dense result that fits. A hint: the caller checks where the result is."""


class _Donation:
    """A context manager that is faster than a generator: the codec enters one for every array."""

    __slots__ = ("_before", "_spare")

    def __init__(self, spare: list[NDArray[np.generic]] | None) -> None:
        self._spare = spare

    def __enter__(self) -> None:
        self._before = spare_residuals.set(self._spare)

    def __exit__(self, *error: object) -> None:
        spare_residuals.reset(self._before)


def donate_residuals(spare: list[NDArray[np.generic]] | None = None) -> AbstractContextManager[None]:
    """Makes a context in which ops on NumPy arrays overwrite the residuals they are given.

    Args:
        spare: Arrays to write new residuals to instead. See `spare_residuals`.
    """
    return _Donation(spare)


def take_result(count: int, dtype: DType) -> NDArray[np.generic] | None:
    """Takes the array for a result out of `result_place`. None if no array of this size fits."""
    out = result_place.get()
    if out is None or out.size != count or out.dtype != dtype:
        return None
    result_place.set(None)
    return out.reshape(-1)


def place_for(residual: Array | None, like: Array) -> Array:
    """Returns the array for the next residual: the donated residual, a spare array, or new memory.

    Args:
        residual: The residual of earlier rounds, or None.
        like: An array with the shape and dtype of the residual.
    """
    return places_for([residual], [like])[0]


def places_for(residuals: Sequence[Array | None], likes: Sequence[Array]) -> list[Array]:
    """Returns the array for each next residual of a list. See `place_for`."""
    spare = spare_residuals.get(_NONE_SPARE)
    if spare is None:
        pairs = zip(residuals, likes, strict=True)
        return [kernels.empty(x.shape, x.dtype) if old is None else old for old, x in pairs]
    if not spare:
        return list(map(kernels.empty, map(_shape, likes), map(_dtype, likes)))
    places: list[Array] = []
    for like in likes:
        position, end = 0, len(spare)
        while position < end and (spare[position].shape, spare[position].dtype) != (like.shape, like.dtype):
            position += 1
        fits = position < end
        places.append(spare.pop(position) if fits else kernels.empty(like.shape, like.dtype))
    return places


def own(accumulator: Array) -> Array:
    """Returns an array that an op may add to: the accumulator itself if it was donated, or a copy."""
    return accumulator if spare_residuals.get(_NONE_SPARE) is None else np.array(accumulator)
