"""The simulator's jobs, which take half a minute each, most of it waiting: run once, side by side."""

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
"""That a job may take, try by try: it mostly ends in half a minute, and some never do."""


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """The jobs by name, under way from the first test on that looks at one."""
    workspace = tmp_path_factory.mktemp("workspace")
    with ThreadPoolExecutor(3) as pool:
        yield {name: pool.submit(_finish, name, workspace) for name in jobs.JOBS}


def _finish(name: str, workspace: Path) -> jobs.Finished:
    """Runs a job in a process of its own, and anew if it does not end.

    The simulator reaches a site's process at a port that was free when it looked. When another process has
    taken it since, the simulator gives the site up, and its server waits for it without an end.
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
