"""A process that is killed at any moment leaves the last round, or the one before it, whole.

`FEDPLUG_KILLS` is the number of kills at random moments, 25 unless it is set.
"""

import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

KILLS = int(os.environ.get("FEDPLUG_KILLS", "25"))
COMMITTER = pathlib.Path(__file__).with_name("committer.py")


def run(folder, *death, seconds=None):
    """Lets the committer run until it dies or is killed; returns the rounds it said it had committed."""
    command = [sys.executable, str(COMMITTER), str(folder), *map(str, death)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        rounds = [int(child.stdout.readline())] if seconds is not None else []
        if seconds is not None:
            time.sleep(seconds)
            child.kill()
        rounds += [int(line) for line in child.stdout]
    assert child.returncode == -9
    return rounds


@pytest.mark.slow  # but in every `make test-numpy`
def test_a_store_killed_again_and_again_is_whole_every_time(tmp_path, assert_whole):
    delays = random.Random(0)
    for _ in range(KILLS):
        rounds = run(tmp_path / "s", seconds=delays.uniform(0, 0.05))
        assert_whole(tmp_path / "s", rounds[-1])


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("fsync", 1),  # the first segment is written, but perhaps not on the disk
        ("fsync", 2),  # the first segment is on the disk, its name perhaps not
        ("fsync", 3),
        ("unlink", 1),  # a later round is committed; what it replaced is still there
    ],
)
def test_a_crash_at_each_step_of_a_commit_leaves_the_last_round_or_the_next_one(
    tmp_path, assert_whole, call, count
):
    folder = tmp_path / "s"
    rounds = run(folder, call, count)
    assert_whole(folder, rounds[-1] if rounds else -1)


def test_a_store_goes_on_after_a_crash(tmp_path, assert_whole):
    first = run(tmp_path / "s", "fsync", 6)
    second = run(tmp_path / "s", "fsync", 6)
    assert second[0] in (first[-1] + 1, first[-1] + 2)  # the round it died in may have been permanent
    assert_whole(tmp_path / "s", second[-1])
