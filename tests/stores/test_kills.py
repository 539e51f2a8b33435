"""Tests that a store in a folder is complete after `kill -9` at random moments.

`FEDPLUG_KILLS` is the number of kills, 6 unless it is set.
"""

from __future__ import annotations

import os
import random

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import check_whole, commit_until_killed


def test_a_store_killed_again_and_again_has_a_complete_round_every_time(tmp_path):
    config = {"path": str(tmp_path / "s")}
    moments = random.Random(0)
    for _ in range(int(os.environ.get("FEDPLUG_KILLS", "6"))):
        last_said = commit_until_killed(SqliteStore, config, moments.uniform(0, 0.05))
        with SqliteStore(**config) as store:
            check_whole(store.open_process("p"), last_said)
