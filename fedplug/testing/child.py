"""Runs checks in a forked process, so that a kernel that crashes fails one check and has a name."""

from __future__ import annotations

import faulthandler
import mmap
import os
import sys
from collections.abc import Callable

from fedplug.registry.forking import ROOM, Say, can_fork, forked, read_text, write_text
from fedplug.testing import expect

__all__ = ["in_child"]

# gRPC's handlers of a fork end the process that forks, at times, where TFF's worker has run in it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_PROCESSOR_SECONDS = 600


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
