"""Tests that no worker survives a killed driver (Ray's own processes follow within two minutes)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

DRIVER = """
import time

import ray

from fedplug_ray.workers import Limits, Workers


class Sleeper:
    def ready(self):
        pass

    def sleep(self):
        time.sleep(600)


ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
workers = Workers([ray.remote(Sleeper).remote], Limits(60, 600, 0))


def submit(actor, number):
    print("submitted", flush=True)
    return actor.sleep.remote()


workers.run(submit, "sleep", lambda: None)
"""


def descendants(pid):
    """The processes below a process, from the process table."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(stat.parent.name)] = int(after_name[1])
    found, below = set(), {pid}
    while below:
        below = {child for child, parent in parents.items() if parent in below} - found
        found |= below
    return found


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_worker(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().startswith("ray::")


@pytest.mark.slow
def test_no_worker_is_left_when_the_driver_is_killed():
    quiet = os.environ | {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, env=quiet)
    with driver, driver.stdout:
        while driver.stdout.readline() != "submitted\n":
            assert driver.poll() is None
        workers = set(filter(is_worker, descendants(driver.pid)))
        assert workers
        driver.kill()
    end = time.monotonic() + 60
    while any(map(lives, workers)) and time.monotonic() < end:
        time.sleep(0.2)
    assert not [pid for pid in workers if lives(pid)]
