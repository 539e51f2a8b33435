"""Tasks of workers that hang are repeated, and workers that cannot start are an error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fedplug_ray.workers import Limits, Workers

from fedplug.errors import WorkerError


class Calculator:
    """A worker without TensorFlow, which starts at once. It hangs once if a test asks for it."""

    def ready(self):
        pass

    def stop(self, number):
        pass

    def double(self, number, marker=None):
        if marker is not None and not Path(marker).exists():
            Path(marker).touch()
            time.sleep(600)
        return 2 * number


class NotStarting(Calculator):
    def __init__(self):
        raise ImportError("no such package here")


LIMITS = Limits(start_timeout=60, task_timeout=60, retries=2)


@pytest.fixture
def workers(cluster):
    made = []

    def make(kind=Calculator, count=2, limits=LIMITS):
        actor = cluster.remote(kind).options(num_cpus=0.1, max_concurrency=2)
        made.append(Workers([actor.remote] * count, limits))
        return made[-1]

    yield make
    for each in made:
        each.close()


def nothing():
    pass


def double(workers, *arguments):
    return workers.run(lambda actor, _: actor.double.remote(*arguments), "a task", nothing)


def test_a_task_that_hangs_is_done_by_another_worker(workers, tmp_path):
    pool = workers(limits=Limits(start_timeout=60, task_timeout=2, retries=10))
    assert double(pool, 4, str(tmp_path / "marker")) == 8


def test_workers_that_cannot_start_are_an_error_with_the_reason_until_they_can(workers, monkeypatch):
    pool = workers(NotStarting)
    with pytest.raises(WorkerError, match=r"no worker could be started.*no such package here"):
        double(pool, 4)
    monkeypatch.setattr(pool, "_to_start", workers()._to_start)
    assert double(pool, 4) == 8
