"""A power cut leaves a sharded store, whose index and shards are on disks, at the last round or the next one.

`FEDPLUG_CRASHES` is the number of power cuts to try, 30 unless it is set; `file_trace` describes them.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pytest
from file_trace import Trace
from local_store import LocalStore

from fedplug.testing.kills import check_whole

CRASHES = int(os.environ.get("FEDPLUG_CRASHES", "30"))
PROGRAM = """
import os, sys
from fedplug.testing.kills import commit_next
from local_store import LocalStore
with LocalStore(sys.argv[1], shards=("a", "b")) as store:
    process = store.open_process("p", {})
    for _ in range(2):
        print(commit_next(process, 200), flush=True)
os._exit(0)
"""


def test_after_a_power_cut_a_sharded_store_has_the_last_round_or_the_next_one(tmp_path, monkeypatch):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with LocalStore(tmp_path / "s", shards=("a", "b")) as store:
        store.open_process("p", {})
    folders = [path.relative_to(tmp_path / "s") for path in (tmp_path / "s").rglob("*") if path.is_dir()]
    trace = Trace(tmp_path / "s", [sys.executable, "-c", PROGRAM, str(tmp_path / "s")], tmp_path / "log")
    if "ptrace" in trace.result.stderr:
        pytest.skip(f"strace may not be used: {trace.result.stderr}")
    assert trace.result.stderr == ""
    source = random.Random(1)
    states = list(trace.states(source, dropped=2))
    for number, (said, files) in enumerate(source.sample(states, min(CRASHES, len(states)))):
        folder = tmp_path / str(number)
        for name in folders:
            (folder / name).mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        with LocalStore(folder, shards=("a", "b")) as store:
            process = store.open_process("p", {})
            if said or process.last_round is not None:
                check_whole(process, int(said[-1]) if said else 0)
        shutil.rmtree(folder)
