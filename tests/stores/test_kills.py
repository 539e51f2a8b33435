"""A store in a folder is whole after `kill -9` at random moments, also on a slow disk.

For a slow disk, strace delays the system calls with which a process writes and waits, those of SQLite, too.
`FEDPLUG_KILLS` is the number of kills of each test, 6 unless it is set.
"""

import os
import random
import shutil
import subprocess

import pytest

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import check_whole, commit_until_killed

KILLS = int(os.environ.get("FEDPLUG_KILLS", "6"))
# Microseconds that each takes longer. So a commit that took 10 ms takes ten times as long.
DELAYS = {"fsync,fdatasync": 20_000, "pwrite64": 1_000, "unlink": 5_000}
# With -D the process is that of the program alone: killing it kills nothing else.
SLOWLY = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", f"--trace={','.join(DELAYS)}"]
SLOWLY += [f"--inject={calls}:delay_enter={delay}" for calls, delay in DELAYS.items()]


def kill(folder, seconds, by=()):
    """Kills the store again and again, at most that long after a commit, and checks it. Returns the round."""
    config, moments = {"path": str(folder)}, random.Random(0)
    for _ in range(KILLS):
        said = commit_until_killed(SqliteStore, config, moments.uniform(0, seconds), by=by)
        with SqliteStore(**config) as store:
            check_whole(store.open_process("p"), said)
    return said


def test_a_store_killed_again_and_again_has_a_complete_round_every_time(tmp_path):
    kill(tmp_path / "s", 0.05)


def test_a_commit_waits_for_the_disk(tmp_path):
    """SQLite's own tests cover power cuts with these settings."""
    with SqliteStore(tmp_path / "s") as store:
        settings = [store._database._pragma(name) for name in ("synchronous", "journal_mode")]
    assert settings == [2, "wal"]


def test_a_kill_in_the_middle_of_a_slow_commit_leaves_one_round(tmp_path):
    if shutil.which("strace") is None or subprocess.run([*SLOWLY, "true"], check=False).returncode:
        pytest.skip("strace is not installed, or may not be used")
    assert kill(tmp_path / "s", 0.5, SLOWLY) >= KILLS - 1
