"""Random numbers and indices that sender and receiver draw alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import fedplug._kernels as _kernels
from fedplug.errors import ArgumentError
from fedplug.kernels.arguments import whole
from fedplug.types import Array, Scalar, Values

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["draw_indices", "random_uniform", "random_words"]


def random_words(count: Array | int, first: Scalar, second: Scalar) -> NDArray[np.uint32]:
    """Draws uniform random words of 32 bits.

    They are the numbers of Philox (Salmon et al., SC 2011) as TensorFlow seeds it: viewed as int32, those of
    ``tf.random.stateless_uniform([count], seed=[first, second], minval=None, maxval=None, dtype=tf.int32,
    alg="philox")``. They depend on the arguments alone, and a smaller ``count`` draws a prefix.

    Args:
        count: Number of words, 0 or more.
        first: The first half of the seed, in ``[-2**63, 2**63)``.
        second: The second half of the seed, in ``[-2**63, 2**63)``.

    Returns:
        ``[count]`` uint32.

    Raises:
        ArgumentError: ``count`` is negative.
    """
    return _kernels.random_words(whole("count", count), whole("first", first), whole("second", second))


def random_uniform(
    count: Array | int, first: Scalar, second: Scalar, dtype: DTypeLike = np.float32
) -> Values:
    """Draws uniform numbers in ``[0, 1)`` from the words of :func:`random_words`.

    They are those of ``tf.random.stateless_uniform([count], seed=[first, second], dtype=dtype,
    alg="philox")``.

    Args:
        count: Number of draws, 0 or more.
        first: The first half of the seed, in ``[-2**63, 2**63)``.
        second: The second half of the seed, in ``[-2**63, 2**63)``.
        dtype: float32, for multiples of 2**-23, or float64, for multiples of 2**-52.

    Returns:
        ``[count]`` of that dtype.

    Raises:
        ArgumentError: ``count`` is negative, or ``dtype`` is another.
    """
    count, first, second = whole("count", count), whole("first", first), whole("second", second)
    wanted = np.dtype(dtype)
    if wanted == np.float32:
        return _kernels.random_floats(count, first, second)
    if wanted == np.float64:
        return _kernels.random_doubles(count, first, second)
    raise ArgumentError(f"dtype is {wanted}; it must be float32 or float64")


def draw_indices(seed: Scalar, count: Scalar, size: Scalar) -> NDArray[np.int32]:
    """Draws one index from each of ``count`` ranges of nearly equal length.

    The indices depend on the arguments alone, as ``csrc/core/random_numbers.h`` specifies. Their random
    numbers are those of Philox (Salmon et al., SC 2011).

    Args:
        seed: The seed, in ``[-2**63, 2**63)``.
        count: Number of indices.
        size: Number of elements that the indices refer to. Below 2**31.

    Returns:
        ``[count]`` int32, strictly ascending, in ``[0, size)``.

    Raises:
        ArgumentError: ``0 <= count <= size < 2**31`` does not hold.
    """
    return _kernels.draw_indices(whole("seed", seed), whole("count", count), whole("size", size))
