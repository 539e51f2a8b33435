"""Runs checks in a forked process, so that a kernel that crashes fails one check and has a name."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import TypeAlias

from fedplug.testing import expect

__all__ = ["Say", "can_fork", "forked", "in_child"]

Say: TypeAlias = Callable[[str], None]
"""Notes what is tried next, as the subject of a sentence."""

_ROOM = 2**16
_PROCESSOR_SECONDS = 600


def can_fork() -> bool:
    """Whether `in_child` uses a process of its own: on Linux and macOS."""
    return hasattr(os, "fork")


def in_child(check: Callable[[Say], None]) -> None:
    """Runs a check in a process of its own; without `os.fork` it runs here.

    Raises:
        ConformanceError: The check failed, or ended the process; the message has what was tried last.
    """
    if not can_fork():
        check(lambda what: None)
        return
    with mmap.mmap(-1, _ROOM) as failure:

        def run(say: Say) -> int:
            try:
                _confine()
                check(say)
            except AssertionError as error:
                _write(failure, str(error))
            except BaseException as error:  # the parent raises it
                _write(failure, f"{type(error).__name__}: {error}")
            return 0

        code, what, how = forked(run)
        reason = _read(failure)
    expect.that(not reason, reason)
    expect.that(code == 0, f"{what} {how}")


def forked(action: Callable[[Say], int]) -> tuple[int, str, str]:
    """Runs a function in a forked process and waits for it.

    Returns:
        The exit code, which is negative if a signal ended the process; what was said last; and "ends the
        process" with the signal or the exit code.
    """
    with mmap.mmap(-1, _ROOM) as trying:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the function does not use
            pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = action(lambda what: _write(trying, what))
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        how = f"exit status {code}" if code >= 0 else signal.strsignal(-code)
        return code, _read(trying), f"ends the process: {how}"


def _confine() -> None:
    """Limits this process in time, and discards what C libraries say when they crash."""
    import resource  # like os.fork, only where there are signals

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.__stderr__.fileno() if sys.__stderr__ else 2)


def _write(memory: mmap.mmap, text: str) -> None:
    data = text.encode(errors="backslashreplace")[: _ROOM - 4]
    memory[: 4 + len(data)] = len(data).to_bytes(4, "little") + data


def _read(memory: mmap.mmap) -> str:
    length = int.from_bytes(memory[:4], "little")
    return memory[4 : 4 + length].decode(errors="replace")
