"""On a slow disk a round takes long, and is whole or absent all the same, whenever its process dies.

`FEDPLUG_KILLS` is the number of kills of each kind, 6 unless it is set. Needs strace.
"""

import os
import pathlib
import random

import pytest
import slow_disk
from local_store import LocalStore

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import check_whole, commit_until_killed

KILLS = int(os.environ.get("FEDPLUG_KILLS", "6"))


# Of these, a commit takes about 0.2 and 0.7 seconds.
@pytest.mark.parametrize(("store", "seconds"), [(SqliteStore, 0.5), (LocalStore, 1.5)])
def test_a_kill_in_the_middle_of_a_slow_commit_leaves_one_round(store, seconds, tmp_path, monkeypatch):
    if not slow_disk.usable():
        pytest.skip("strace is not installed, or may not be used")
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parent))  # for `local_store`
    moments = random.Random(0)
    with store(tmp_path / "s") as opened:
        config = opened.get_config()
    for _ in range(KILLS):
        said = commit_until_killed(store, config, moments.uniform(0, seconds), by=slow_disk.slowly())
        with store(**config) as opened:
            check_whole(opened.open_process("p", {}), said)
    assert said >= KILLS - 1
