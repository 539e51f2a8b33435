"""Whatever the disk made of the writes that were not confirmed, the store is at the last round or the next.

`FEDPLUG_CRASHES` is the number of crashes to try in each way, 150 unless it is set.
"""

import hashlib
import os
import random
import shutil
import sys

import pytest
from file_trace import Trace
from stored import check_committed

from fedplug.stores.sqlite import SqliteStore

CRASHES = int(os.environ.get("FEDPLUG_CRASHES", "150"))

# Commits with collections; closing, which moves SQLite's log into its file; opening again.
PROGRAM = """
import os, sys
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import commit_next
for _ in range(2):
    with SqliteStore(sys.argv[1]) as store:
        process = store.open_process("p", {})
        for _ in range(3):
            print(commit_next(process, 200), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    where = tmp_path_factory.mktemp("trace")
    with SqliteStore(where / "s") as store:
        store.open_process("p", {})
    recorded = Trace(where / "s", [sys.executable, "-c", PROGRAM, str(where / "s")], where / "log")
    if "ptrace" in recorded.result.stderr:
        pytest.skip(f"strace may not be used: {recorded.result.stderr}")
    assert recorded.result.stderr == ""
    return recorded


def lay_out(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_without_a_crash_the_model_equals_the_disk(trace):
    certain = trace.after_all()
    on_disk = {
        str(path.relative_to(trace.folder)): path for path in trace.folder.rglob("*") if path.is_file()
    }
    assert certain.keys() == on_disk.keys()
    for name, path in on_disk.items():
        assert certain[name] == path.read_bytes()
    assert [op.name for op in trace.ops if op.kind == "said"] == [str(number) for number in range(6)]
    kinds = {"write", "length", "link", "unlink", "sync", "sync names", "said"}
    assert {op.kind for op in trace.ops} == kinds


def test_a_crash_anywhere_leaves_the_last_round_or_the_next_one_whole(trace, tmp_path):
    source, seen = random.Random(1), {}
    for said, files in trace.states(source, dropped=4):
        digest = hashlib.sha256(repr(sorted(files.items())).encode()).digest()
        seen[digest] = (said, files)  # what was said last must hold, too
    states = list(seen.values())
    for number, (said, files) in enumerate(source.sample(states, min(CRASHES, len(states)))):
        folder = tmp_path / str(number)
        folder.mkdir()
        lay_out(folder, files)
        if said:
            check_committed(folder, int(said[-1]))
        else:
            with SqliteStore(folder) as store:
                process = store.open_process("p")
                assert process.last_round in (None, 0)
                process.verify()
        shutil.rmtree(folder)
