"""The resources that kernels use: threads, instruction set and memory."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import fedplug._kernels as _kernels
from fedplug.types import DType

__all__ = ["empty", "num_threads", "simd_level"]


def empty(shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """Returns a C-contiguous array with undefined contents, as memory for a result.

    Arrays of 64 KiB or more reuse the memory of earlier arrays, as all results of kernels do: touching fresh
    memory takes longer than most kernels. At most 512 MiB are kept for reuse.
    """
    return _kernels.empty(shape, dtype)


def num_threads() -> int:
    """Returns the number of threads that a kernel may use.

    Raises:
        ConfigError: ``FEDPLUG_NUM_THREADS`` is set, but not to an integer from 1 to 1024.
    """
    return _kernels.num_threads()


def simd_level() -> str:
    """Returns the instruction set of the kernels: ``"baseline"``, ``"avx2"`` or ``"avx512"``.

    It is the best one that the processor has, or the one in the environment variable ``FEDPLUG_SIMD``. No
    result depends on it.

    Raises:
        ConfigError: ``FEDPLUG_SIMD`` is set, but not to a level of this processor. Selections raise it too.
    """
    return _kernels.simd_level()
