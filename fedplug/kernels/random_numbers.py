"""Random numbers that two sides draw alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedplug import _kernels
from fedplug.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["random_uniform", "random_words"]


def random_words(count: int, first: int, second: int) -> NDArray[np.uint32]:
    """Draws words of which each of the 2**32 is as likely as any other.

    They are those of Philox (Salmon et al., SC 2011) as TensorFlow seeds it: viewed as int32, what
    ``tf.random.stateless_uniform([count], seed=[first, second], minval=None, maxval=None, dtype=tf.int32,
    alg="philox")`` draws. They follow from the arguments alone, and fewer of them are the first of more.

    Args:
        count: How many; 0 or more.
        first: One half of the seed, in ``[-2**63, 2**63)``.
        second: The other half, likewise.

    Returns:
        ``[count]`` uint32.

    Raises:
        ArgumentError: ``count`` is negative.
    """
    return _kernels.random_words(count, first, second)


def random_uniform(count: int, first: int, second: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Draws uniform numbers in ``[0, 1)`` from the words of :func:`random_words`.

    They are what ``tf.random.stateless_uniform([count], seed=[first, second], dtype=dtype, alg="philox")``
    draws.

    Args:
        count: How many; 0 or more.
        first: One half of the seed, in ``[-2**63, 2**63)``.
        second: The other half, likewise.
        dtype: float32, multiples of 2**-23; or float64, multiples of 2**-52.

    Returns:
        ``[count]`` of that dtype.

    Raises:
        ArgumentError: ``count`` is negative, or ``dtype`` is another.
    """
    wanted = np.dtype(dtype)
    if wanted == np.float32:
        return _kernels.random_floats(count, first, second)
    if wanted == np.float64:
        return _kernels.random_doubles(count, first, second)
    raise ArgumentError(f"dtype is {wanted}; it must be float32 or float64")
