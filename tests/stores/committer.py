"""Commits one round after the other until it is killed; run as a program by the crash tests.

Usage: committer.py FOLDER [CALL COUNT]. With CALL, it dies at the COUNT-th use of `os.CALL` once set up.
"""

import os
import signal
import sys

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import commit_next


def die_at(call, count):
    real, left = getattr(os, call), [count]

    def counted(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(os, call, counted)


def main(folder, *death):
    process = SqliteStore(folder).open_process("p", {})
    if death:
        die_at(death[0], int(death[1]))
    while True:
        print(commit_next(process), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
