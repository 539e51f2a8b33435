"""Read-only arrays, which need not be copied."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["can_be_written", "give_up"]


def can_be_written(array: NDArray[Any]) -> bool:
    """Returns whether the values can change through the array, an array it views, or a mapped file.

    Arrays over other memory that are flagged read-only are trusted.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return isinstance(owner, mmap.mmap)


def give_up(array: NDArray[Any]) -> None:
    """Makes an array read-only. The caller must hold the only reference."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
