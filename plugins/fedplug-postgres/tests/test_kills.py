"""Tests that rounds are complete after `kill -9` of the program, its server process or the whole server.

`FEDPLUG_KILLS` is the number of kills of each kind at random moments, 2 unless it is set.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import threading
import time

import pytest
from fedplug_postgres.store import PostgresStore

import fedplug
from fedplug.errors import StoreError
from fedplug.testing import rounds

KILLS = int(os.environ.get("FEDPLUG_KILLS", "2"))


def test_killing_the_program_leaves_the_last_round_or_the_next_whole(url):
    delays = random.Random(0)
    for _ in range(KILLS):
        with fedplug.open_store(url) as store:
            config = store.get_config()
        said = rounds.commit_until_killed(PostgresStore, config, delays.uniform(0, 0.2))
        with fedplug.open_store(url) as store:
            rounds.check_whole(store.open_process("p"), said)


def last_committed(process, said):
    """Commits until it is refused."""
    try:
        while True:
            said = rounds.commit_next(process)
    except StoreError:
        return said


@pytest.mark.parametrize("what", ["its process of the server", "the server"])
def test_killing_the_server_costs_at_most_a_round_and_the_store_continues(server, url, what):
    """The same store, not opened again, finds the server when it is back."""
    delays = random.Random(1)
    with fedplug.open_store(url) as store:
        process = store.open_process("p", {})
        said = rounds.commit_next(process)
        for _ in range(KILLS):
            ((pid,),) = server.sql(
                "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'fedplug%' AND state <> ''"
            )
            kill = server.kill if what == "the server" else functools.partial(os.kill, pid, signal.SIGKILL)
            killer = threading.Timer(delays.uniform(0, 0.2), kill)
            killer.start()
            said = last_committed(process, said)
            killer.join()
            if what == "the server":
                with pytest.raises(StoreError, match="cannot be reached"):
                    process.last_round  # noqa: B018
                server.start()
            # When one of its processes dies, PostgreSQL ends all others and recovers: some hundred ms.
            deadline = time.monotonic() + 60
            while True:
                try:
                    rounds.check_whole(process, said)
                    break
                except StoreError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
            said = rounds.commit_next(process)
