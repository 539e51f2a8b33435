"""Lets this process die at one of its file operations, and tells what it was doing."""

import os
import signal
import sys

CALLS = ("fsync", "unlink", "rename", "open", "rmdir", "mkdir")
# What a sharded store is doing, by the functions that are running: the first of these that is among them.
PHASES = {
    "rewind": "going back",
    "collect": "compaction",
    "prepare": "prepare",
    "copy_from": "move",
    "tidy": "move",
    "settle": "settle",
    "stage": "staging",
    "transact": "commit",
}


def phase():
    """Returns what this thread is doing."""
    running, frame = set(), sys._getframe()
    while frame is not None:
        running.add(frame.f_code.co_name)
        frame = frame.f_back
    return next((name for function, name in PHASES.items() if function in running), "the rest")


def die_at(count, calls=CALLS, during=None, tell=None):
    """Lets this process die at the count-th file operation from now on.

    Args:
        count: Number of the operation, from 1.
        calls: The functions of `os` to count.
        during: The phase in which to count; always if None.
        tell: A function to call with the phase just before.
    """
    left = [count]

    def counted(real):
        def call(*arguments, **options):
            if during is None or phase() == during:
                left[0] -= 1
                if left[0] == 0:
                    if tell is not None:
                        tell(phase())
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in calls:
        setattr(os, name, counted(getattr(os, name)))
