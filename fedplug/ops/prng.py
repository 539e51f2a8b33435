"""Random numbers with the same bits for any number of threads, SIMD level and device.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011 (Philox4x32-10).
"""

from __future__ import annotations

import numpy as np

import fedplug.kernels as kernels
from fedplug.kernels.arguments import whole
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array, Scalar

__all__ = ["dither", "random_words", "round_seed", "shared_uniform"]

_RANGE = -(2**31), 2**31 - 1


@also_on(tensors=lambda: _tensorflow.prng.round_seed)
def round_seed(seed: Scalar, round_num: Scalar) -> Scalar:
    """Combines seed and round number as ``2^32 seed + round``. int64 scalar.

    Args:
        seed: A whole number of 32 bits with its sign. Integer scalar.
        round_num: A whole number of 32 bits with its sign. Integer scalar.

    Raises:
        ArgumentError: A number has more bits: the seed would be that of another one.
    """
    return (whole("seed", seed, *_RANGE) << 32) + whole("round_num", round_num, *_RANGE)


@also_on(tensors=lambda: _tensorflow.prng.random_words)
def random_words(count: Array | int, first: Scalar, second: Scalar) -> Array:
    """Draws random words of 32 bits, which depend on the arguments alone.

    Args:
        count: Number of words. Integer scalar.
        first: The first half of the seed, a scalar of at most 64 bits.
        second: The second half of the seed, a scalar of at most 64 bits.

    Returns:
        int32 vector ``[count]``.
    """
    return kernels.random_words(count, first, second).view(np.int32)


@also_on(tensors=lambda: _tensorflow.prng.shared_uniform)
def shared_uniform(count: Array | int, seed: Scalar) -> Array:
    """Draws uniform numbers in ``[0, 1)`` that are equal on all clients: they depend on the seed alone.

    Args:
        count: Number of draws. Integer scalar.
        seed: int64 scalar, see `round_seed`.

    Returns:
        float64 vector ``[count]``.
    """
    return kernels.random_uniform(count, whole("seed", seed), 0, dtype=np.float64)


@also_on(tensors=lambda: _tensorflow.prng.dither)
def dither(values: Array, seed: Scalar) -> Array:
    """Draws uniform numbers in ``[0, 1)`` for stochastic rounding, different ones for different values.

    An encoder knows neither its client nor its tensor. With equal numbers for all, the rounding errors would
    be equal too and would not average out. The numbers therefore depend on the checksum of the values and on
    the seed. Updates that differ in one last bit, for instance between two TensorFlow builds, are rounded
    differently.

    Args:
        values: A vector of floats.
        seed: int64 scalar, see `round_seed`.

    Returns:
        float32 vector with one number per value.
    """
    return kernels.random_uniform(
        np.size(values), whole("seed", seed), kernels.crc32(values), dtype=np.float32
    )
