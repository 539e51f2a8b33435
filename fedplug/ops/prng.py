"""Random numbers with the same bits on any number of threads, SIMD level and device.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011 (Philox4x32-10).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["dither", "random_words", "round_seed", "shared_uniform"]


@also_on(tensors=lambda: _tensorflow.prng.round_seed)
def round_seed(seed: Any, round_num: Any) -> Array:
    """Seed and round in one, ``2^32 seed + round``; int64 scalar."""
    return (int(seed) << 32) + int(round_num)


@also_on(tensors=lambda: _tensorflow.prng.random_words)
def random_words(count: Any, first: Any, second: Any) -> Array:
    """Words of 32 random bits that follow from the arguments alone.

    Args:
        count: How many; integer scalar.
        first: One half of the seed, a scalar of at most 64 bits.
        second: The other half, likewise.

    Returns:
        int32 vector ``[count]``.
    """
    return kernels.random_words(int(count), int(first), int(second)).view(np.int32)


@also_on(tensors=lambda: _tensorflow.prng.shared_uniform)
def shared_uniform(count: Any, seed: Any) -> Array:
    """Uniform numbers in ``[0, 1)`` that all clients agree upon: they depend on the seed alone.

    Args:
        count: How many; integer scalar.
        seed: int64 scalar, see `round_seed`.

    Returns:
        float64 vector ``[count]``.
    """
    return kernels.random_uniform(int(count), seed, 0, dtype=np.float64)


@also_on(tensors=lambda: _tensorflow.prng.dither)
def dither(values: Any, seed: Any) -> Array:
    """Uniform numbers in ``[0, 1)`` for rounding ``values`` at random: other values, other numbers.

    An encoder is told neither which client nor which tensor it works for; were the numbers the same for all,
    their rounding errors would be too and would not average out. So the numbers depend on the checksum of the
    values as well as on the seed. (Updates that differ in a last bit, as those of two TensorFlow builds may,
    are therefore rounded at random in different ways.)

    Args:
        values: A vector of floats.
        seed: int64 scalar, see `round_seed`.

    Returns:
        float32 vector, one number per value.
    """
    return kernels.random_uniform(values.size, seed, kernels.crc32(values), dtype=np.float32)
