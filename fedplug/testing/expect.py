"""Comparisons for checks; a failure names the compared values and where it differs first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedplug.ops.device_array import on_host

__all__ = ["ConformanceError", "close", "eps", "same_bits", "same_tensors", "that", "tiny"]


class ConformanceError(AssertionError):
    """A component breaks a promise. The message says which one and where."""


def that(condition: object, message: str) -> None:
    """Fails with the message unless the condition holds.

    Raises:
        ConformanceError: It does not hold.
    """
    if not bool(condition):
        raise ConformanceError(message)


def same_bits(what: str, got: object, want: object) -> None:
    """Fails unless dtype, shape and every bit are equal, including the sign of zeros and NaNs.

    Raises:
        ConformanceError: They are not.
    """
    found, wanted = _array(got), _array(want)
    that(
        (found.dtype, found.shape) == (wanted.dtype, wanted.shape),
        f"{what}: {found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}",
    )
    if found.tobytes() != wanted.tobytes():
        width = max(found.itemsize, 1)
        rows = [np.frombuffer(a.tobytes(), np.uint8).reshape(-1, width) for a in (found, wanted)]
        _differ(what, found, wanted, (rows[0] != rows[1]).any(axis=1))


def same_tensors(what: str, got: Mapping[str, object], want: Mapping[str, object]) -> None:
    """Fails unless two mappings have the same keys and values with the same bits.

    Raises:
        ConformanceError: They have not.
    """
    that(set(got) == set(want), f"{what}: {sorted(got)} instead of {sorted(want)}")
    for key in want:
        same_bits(f"{what}[{key!r}]", got[key], want[key])


def close(what: str, got: object, want: object, tolerance: float) -> None:
    """Fails where ``|got - want| > tolerance``, or where one is not finite.

    Raises:
        ConformanceError: There is such a place, or the shapes differ.
    """
    found, wanted = (_array(value).astype(np.float64) for value in (got, want))
    that(found.shape == wanted.shape, f"{what}: shape {list(found.shape)} instead of {list(wanted.shape)}")
    with np.errstate(invalid="ignore"):
        far = ~(np.abs(found - wanted) <= tolerance)
    if far.any():
        _differ(what, found, wanted, far.reshape(-1))


def eps(dtype: DTypeLike) -> float:
    """Returns the distance from 1 to the next number of a floating dtype."""
    return float(_facts(dtype).eps)


def tiny(dtype: DTypeLike) -> float:
    """Returns the smallest positive normal number of a floating dtype. TensorFlow flushes smaller ones."""
    return float(_facts(dtype).smallest_normal)


def _array(value: object) -> NDArray[np.generic]:
    # NumPy by itself cannot read a tensor that is a bfloat16 scalar.
    return np.asarray(value.numpy() if hasattr(value, "numpy") else on_host(value))


def _facts(dtype: DTypeLike) -> Any:
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def _differ(
    what: str, got: NDArray[np.generic], want: NDArray[np.generic], places: NDArray[np.bool_]
) -> None:
    first = int(np.flatnonzero(places)[0])
    raise ConformanceError(
        f"{what}: {int(places.sum())} of {places.size} elements differ, the first at {first}: "
        f"{got.reshape(-1)[first]} instead of {want.reshape(-1)[first]}"
    )
