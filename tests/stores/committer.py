"""Commits one round after the other until it is killed; run as a program by the crash tests.

Usage: committer.py FOLDER [CALL COUNT]. With CALL, it dies at the COUNT-th use of `os.CALL` once set up.
"""

import os
import signal
import sys

import numpy as np

from fedplug.stores.sqlite import SqliteStore

CLIENTS = [f"client {i}" for i in range(6)]


def die_at(call, count):
    real, left = getattr(os, call), [count]

    def counted(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(os, call, counted)


def commit_next(process, size):
    number = 0 if process.last_round is None else process.last_round + 1
    state = {"w": np.full(size, number, np.int64)}
    cohort = [CLIENTS[number % 6], CLIENTS[(number + 1) % 6]]
    process.commit(
        number, client_states=dict.fromkeys(cohort, state), server_state=state, metadata={"cohort": cohort}
    )
    print(number, flush=True)


def main(folder, *death):
    process = SqliteStore(folder).open_process("p", {})
    if death:
        die_at(death[0], int(death[1]))
    while True:
        commit_next(process, 50_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
