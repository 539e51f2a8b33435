"""Runs each job of the simulator once, several at a time: a job takes half a minute, mostly waiting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jobs
import psutil
import pytest

Jobs = dict[str, Future[jobs.Finished]]
SECONDS = (100, 200, 400)
"""Timeouts of the attempts. Most jobs end in half a minute, and some never end."""


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Starts all jobs at the first use. Returns their futures by name."""
    workspace = tmp_path_factory.mktemp("workspace")
    with ThreadPoolExecutor(3) as pool:
        yield {name: pool.submit(_finish, name, workspace) for name in jobs.JOBS}


def _finish(name: str, workspace: Path) -> jobs.Finished:
    """Runs a job in a separate process, and again after a timeout.

    The simulator chooses a free port for a site's process. If another process takes the port first, the
    simulator gives the site up, but its server waits for the site forever.
    """
    for attempt, seconds in enumerate(SECONDS):
        folder = workspace / f"{name}-{attempt}"
        command = [sys.executable, jobs.__file__, name, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                printed, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                    one.kill()
                continue
        if process.returncode == 0:
            *printed_before, job = printed.splitlines()
            return jobs.Finished(folder / job, "\n".join(printed_before))
        raise AssertionError(f"the job {name!r} failed; its output is above, its logs are in {folder}")
    raise AssertionError(f"the job {name!r} did not end in {SECONDS[-1]} s, nor in less before")
