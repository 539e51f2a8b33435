"""Arrays beside memory that cannot be read, which end the process of a kernel that reads further."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["guarded"]

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0


def guarded(array: NDArray[Any]) -> Iterator[tuple[NDArray[Any], str]]:
    """Yields copies that end where unreadable memory begins, and that begin where it ends.

    They keep their memory for ever, so this is for processes that end soon.
    """
    array = np.asarray(array)
    pages = -(-array.nbytes // _PAGE) + 1
    for place, at in (("before", (pages + 1) * _PAGE - array.nbytes), ("after", _PAGE)):
        region = mmap.mmap(-1, (pages + 2) * _PAGE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(region))
        copy = np.frombuffer(region, np.uint8, array.nbytes, at).view(array.dtype).reshape(array.shape)
        copy[...] = array
        for edge in (begin, begin + (pages + 1) * _PAGE):
            if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(edge), _PAGE, _NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")
        yield copy, f"{place} unreadable memory"
