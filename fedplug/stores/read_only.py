"""Arrays that nobody can write to, so that they need not be copied. Must not know who asks."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["can_be_written", "give_up"]


def can_be_written(array: NDArray[Any]) -> bool:
    """Whether somebody could change the values: through the array, one that it views, or a mapped file.

    Whoever made an array of other memory and says that it cannot be written is taken at their word.
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
    """Sees to it that an array that nobody else has cannot be written to any more."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
