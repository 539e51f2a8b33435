"""On a slow disk a round takes long, and is whole or absent all the same, whenever its process dies.

strace delays the system calls with which a process writes and waits, those of SQLite, too. `FEDPLUG_KILLS` is
the number of kills, 6 unless it is set.
"""

import os
import random
import shutil
import subprocess

import pytest

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import check_whole, commit_until_killed

KILLS = int(os.environ.get("FEDPLUG_KILLS", "6"))
# Microseconds that each takes longer. So a commit that took 10 ms takes ten times as long.
DELAYS = {"fsync,fdatasync": 20_000, "pwrite64": 1_000, "unlink": 5_000}
# With -D the process is that of the program alone: killing it kills nothing else.
SLOWLY = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", f"--trace={','.join(DELAYS)}"]
SLOWLY += [f"--inject={calls}:delay_enter={delay}" for calls, delay in DELAYS.items()]


def test_a_kill_in_the_middle_of_a_slow_commit_leaves_one_round(tmp_path):
    if shutil.which("strace") is None or subprocess.run([*SLOWLY, "true"], check=False).returncode:
        pytest.skip("strace is not installed, or may not be used")
    moments = random.Random(0)
    config = {"path": str(tmp_path / "s")}
    for _ in range(KILLS):
        said = commit_until_killed(SqliteStore, config, moments.uniform(0, 0.5), by=SLOWLY)
        with SqliteStore(**config) as opened:
            check_whole(opened.open_process("p", {}), said)
    assert said >= KILLS - 1
