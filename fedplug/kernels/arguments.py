"""Checks of whole numbers: counts, indices, bits, sizes and seeds, for arrays, tensors and devices.

A number that is not whole is refused by its type, even 2.0, because a conversion would cut 2.7 silently.
"""

from __future__ import annotations

import operator
import reprlib
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fedplug.errors import ArgumentError, DTypeError
from fedplug.types import Values

__all__ = ["real", "whole", "whole_numbers"]

_LEAST, _MOST = -(2**63), 2**63 - 1
_SHOWN = 2**64
"""Longer numbers are not shown: Python refuses to write very long ones."""


def whole(name: str, value: Any, least: int = _LEAST, most: int = _MOST) -> int:
    """Returns a whole number as an int.

    Args:
        name: The name of the argument.
        value: An int, an integer scalar of NumPy, or another number with ``__index__``. No bool.
        least: The smallest allowed number.
        most: The largest allowed number. Both limits are within 64 bits.

    Raises:
        DTypeError: ``value`` is not a whole number.
        ArgumentError: ``value`` is out of range.
    """
    if type(value) is not int:
        try:
            if isinstance(value, bool | np.bool_):
                raise TypeError
            value = operator.index(value)
        except TypeError:
            raise DTypeError(f"{name} is {_text(value)}; it must be a whole number") from None
    number: int = value
    if not least <= number <= most:
        range_ = f"from {least} to {most}" if most != _MOST else f"of at least {least} in 64 bits"
        shown = number if -_SHOWN < number < _SHOWN else "a longer number"
        raise ArgumentError(f"{name} is {shown}; it must be a whole number {range_}")
    return number


def whole_numbers(name: str, values: object, dtype: DTypeLike) -> Values:
    """Returns whole numbers as an array. The same array if it has the dtype.

    Args:
        name: The name of the argument.
        values: An integer array of any width, or numbers in lists.
        dtype: The integer dtype of the result.

    Raises:
        DTypeError: ``values`` are not whole numbers.
        ArgumentError: A number does not fit the dtype.
    """
    wanted = np.dtype(dtype)
    array = np.asarray(values)
    if array.dtype == wanted:
        return array
    limits = np.iinfo(wanted)
    if not isinstance(values, np.ndarray):
        if array.ndim == 0:
            return np.asarray(whole(name, values, int(limits.min), int(limits.max)), wanted)
        if array.size == 0:  # an empty list has no dtype
            return array.astype(wanted)
        if array.dtype == object:  # a number of more than 64 bits, or anything else
            array = np.array([whole(name, each) for each in array.flat], np.int64).reshape(array.shape)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{name} has dtype {array.dtype}; it must be {wanted}")
    wraps = array.size and not np.can_cast(array.dtype, wanted)
    if wraps and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
        raise ArgumentError(f"{name} holds a number that does not fit {wanted}")
    return array.astype(wanted)


def real(name: str, value: Any) -> float:
    """Returns a real number as a float. Raises DTypeError for anything else, such as a text or a bool."""
    if type(value) is float:
        return value
    scalar = np.asarray(value)
    if scalar.shape or (scalar.dtype.kind not in "iuf" and scalar.dtype.name != "bfloat16"):
        raise DTypeError(f"{name} is {_text(value)}; it must be a number")
    return float(value)


def _text(value: object) -> str:
    """A short text of a scalar, and of anything else only its type: arrays may be secret and long."""
    if isinstance(value, bool | float | complex | str | bytes | np.generic) or value is None:
        return reprlib.repr(value)
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}{list(value.shape)}"
    return f"of type {type(value).__name__}"
