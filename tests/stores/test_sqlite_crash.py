"""A process that dies at any step of a commit leaves the last round, or the next one, whole."""

import pathlib
import subprocess
import sys

import pytest

COMMITTER = pathlib.Path(__file__).with_name("committer.py")


def run(folder, call, count):
    """Lets the committer run until it dies at a call; returns the rounds it said it had committed."""
    command = [sys.executable, str(COMMITTER), str(folder), call, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -9
    return [int(line) for line in done.stdout.splitlines()]


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
