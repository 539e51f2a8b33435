"""What a store holds, and a death at a file operation."""

import os
import signal

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import check_whole


def values(process):
    """Returns the first value of every client."""
    return {client: state["w"][0] for client, state in process.read_clients(process.client_ids()).items()}


def check_committed(folder, last_said):
    """Checks that a store of `fedplug.testing.rounds` holds the confirmed round or the next one, whole."""
    with SqliteStore(folder) as store:
        check_whole(store.open_process("p"), last_said)


def die_at(count, call):
    """Lets this process die at its count-th call of a function of `os` from now on, counted from 1."""
    real, left = getattr(os, call), [count]

    def counted(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(os, call, counted)
