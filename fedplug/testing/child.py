"""Runs checks in a forked process, so that a kernel that crashes fails one check and has a name.

Arrays beside memory that cannot be read end the process of a kernel that reads further.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedplug.registry.forking import ROOM, Say, can_fork, forked, read_text, write_text
from fedplug.testing import expect

__all__ = ["guarded", "in_child"]

# gRPC's handlers of a fork end the process that forks, at times, where TFF's worker has run in it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_PROCESSOR_SECONDS = 600
_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0


def in_child(check: Callable[[Say], None]) -> None:
    """Runs a check in a process of its own; without `os.fork` it runs here.

    Raises:
        ConformanceError: The check failed, or ended the process. The message names the last thing tried.
    """
    if not can_fork():
        check(lambda what: None)
        return
    with mmap.mmap(-1, ROOM) as failure:

        def run(say: Say) -> int:
            try:
                _confine()
                check(say)
            except AssertionError as error:
                write_text(failure, str(error))
            except BaseException as error:  # the parent raises it
                write_text(failure, f"{type(error).__name__}: {error}")
            return 0

        code, what, how = forked(run)
        reason = read_text(failure)
    expect.that(not reason, reason)
    expect.that(code == 0, f"{what} {how}")


def _confine() -> None:
    """Limits the processor time of this process, and discards the messages of crashing C libraries."""
    import resource  # like os.fork, only where there are signals

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.__stderr__.fileno() if sys.__stderr__ else 2)


def guarded(array: NDArray[np.generic]) -> Iterator[tuple[NDArray[np.generic], str]]:
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
