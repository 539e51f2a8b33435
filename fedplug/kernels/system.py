"""What the kernels run on: how many threads, which instruction set, what memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import _kernels

__all__ = ["empty", "num_threads", "simd_level"]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns a C-contiguous array that is not filled: memory for a result.

    As for all arrays that kernels return, large ones, from 256 KiB on, lie in memory that earlier ones have
    left: to touch fresh memory takes longer than most kernels do. At most 512 MiB wait for the next array.
    """
    return _kernels.empty(shape, dtype)


def num_threads() -> int:
    """Returns how many threads a kernel may use.

    Raises:
        ConfigError: ``FEDPLUG_NUM_THREADS`` is set, but not to an integer from 1 to 1024.
    """
    return _kernels.num_threads()


def simd_level() -> str:
    """Returns the instruction set the kernels use: ``"baseline"``, ``"avx2"`` or ``"avx512"``.

    It is the best one the processor has, or the one the environment variable ``FEDPLUG_SIMD`` asks for; no
    result depends on it.

    Raises:
        ConfigError: ``FEDPLUG_SIMD`` is set, but not to a level this processor has. The selections raise it
            too.
    """
    return _kernels.simd_level()
