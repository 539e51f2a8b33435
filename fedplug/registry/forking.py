"""Runs a function in a forked process, whose end the caller survives."""

from __future__ import annotations

import mmap
import os
import signal
import warnings
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["ROOM", "Say", "can_fork", "forked", "read_text", "write_text"]

Say: TypeAlias = Callable[[str], None]
"""Notes what is tried next, as the subject of a sentence."""

ROOM = 2**16
"""Bytes of memory that both processes share for a text."""


def can_fork() -> bool:
    """Returns whether this system has `os.fork`: on Linux and macOS."""
    return hasattr(os, "fork")


def forked(action: Callable[[Say], int]) -> tuple[int, str, str]:
    """Runs a function in a forked process and waits for it.

    Returns:
        The exit code, which is negative if a signal ended the process, the text that the function noted last,
        and "ends the process" with the signal or the exit code.
    """
    with mmap.mmap(-1, ROOM) as trying:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the function does not use
            pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = action(lambda what: write_text(trying, what))
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        how = f"exit status {code}" if code >= 0 else signal.strsignal(-code)
        return code, read_text(trying), f"ends the process: {how}"


def write_text(memory: mmap.mmap, text: str) -> None:
    """Writes a text to shared memory; a longer one is cut."""
    data = text.encode(errors="backslashreplace")[: ROOM - 4]
    memory[: 4 + len(data)] = len(data).to_bytes(4, "little") + data


def read_text(memory: mmap.mmap) -> str:
    """Reads the text that `write_text` wrote last. Empty if there is none."""
    length = int.from_bytes(memory[:4], "little")
    return memory[4 : 4 + length].decode(errors="replace")
