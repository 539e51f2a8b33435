"""Tasks are repeated when workers die, hang or take results with them; nothing hangs or counts twice."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path

import pytest
from fedplug_ray.runtime import dispatch
from fedplug_ray.runtime.dispatch import Limits, Task, Workers

from fedplug.errors import WorkerError


class Calculator:
    """A worker without TensorFlow, which starts at once. What a test wants it to do wrong it does once."""

    def ready(self):
        pass

    def stop(self, number):
        pass

    def add(self, log, once, *numbers):
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {sum(numbers)}\n")
        if once is not None:
            what, marker = once
            try:
                Path(marker).touch(exist_ok=False)
            except FileExistsError:
                return None, sum(numbers)
            if what == "die":
                os.kill(os.getpid(), 9)
            time.sleep(600)
        return None, sum(numbers)


class Dying(Calculator):
    def add(self, log, once, *numbers):
        os.kill(os.getpid(), 9)


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


def tasks_that_add(log, faults=None):
    """Four numbers, added in pairs, and the pairs."""
    faults = faults or {}

    def number(n):
        def submit(actor, _):
            return actor.add.options(num_returns=2).remote(log, faults.get(n), n)

        return Task(f"number {n}", submit)

    def add(needs):
        def submit(actor, _):
            values = [need.result for need in needs]
            return actor.add.options(num_returns=2).remote(log, faults.get("sum"), *values)

        return Task("a sum", submit, needs, consumes=True)

    numbers = [number(n) for n in (1, 20, 300, 4000)]
    pairs = [add(numbers[:2]), add(numbers[2:])]
    return [*numbers[:2], pairs[0], *numbers[2:], pairs[1], add(pairs)]


def run(cluster, workers, tasks):
    workers.run(tasks, nothing)
    return cluster.get(tasks[-1].result)


def test_tasks_run_once_each_and_release_their_inputs(cluster, workers, tmp_path):
    tasks = tasks_that_add(str(tmp_path / "log"))
    assert run(cluster, workers(), tasks) == 4321
    assert len((tmp_path / "log").read_text().splitlines()) == len(tasks)
    assert all(task.result is None for task in tasks[:-1])


def test_two_processes_number_their_tasks_differently():
    # As another process would import it. A worker that went from one coordinator to another would otherwise
    # take a task for one that the first coordinator stopped.
    again = importlib.util.module_from_spec(importlib.util.find_spec(dispatch.__name__))
    again.__spec__.loader.exec_module(again)
    ours, theirs = ({next(module._numbers) for _ in range(1000)} for module in (dispatch, again))
    assert not ours & theirs


@pytest.mark.parametrize("where", [20, "sum"])
def test_a_worker_that_dies_costs_one_repetition(where, cluster, workers, tmp_path):
    tasks = tasks_that_add(str(tmp_path / "log"), {where: ("die", str(tmp_path / "marker"))})
    assert run(cluster, workers(), tasks) == 4321
    assert len((tmp_path / "log").read_text().splitlines()) == len(tasks) + 1
    assert sum(task.tries for task in tasks) == 1


def test_a_task_that_hangs_is_done_by_another_worker(cluster, workers, tmp_path):
    tasks = tasks_that_add(str(tmp_path / "log"), {20: ("hang", str(tmp_path / "marker"))})
    # A busy machine may be late with other tasks, too.
    pool = workers(limits=Limits(start_timeout=60, task_timeout=2, retries=10))
    assert run(cluster, pool, tasks) == 4321
    assert tasks[1].tries >= 1


def test_a_result_that_was_lost_with_its_machine_is_made_again(cluster, workers, tmp_path):
    tasks = tasks_that_add(str(tmp_path / "log"))
    pool = workers()
    pool.run(tasks[:3], nothing)
    # To the driver, what was freed looks like what was lost with the machine that held it.
    tasks[2].result = cluster.put(b"21" * 200_000)
    with pytest.warns(DeprecationWarning, match="`free` is a deprecated API"):
        cluster._private.internal_api.free([tasks[2].result])
    assert run(cluster, pool, tasks[3:]) == 4321
    log = (tmp_path / "log").read_text().split()[1::2]
    assert sorted(map(int, log)) == sorted(2 * [1, 20, 21, 300, 4000, 4300] + [4321])


def test_after_all_retries_the_error_names_the_unfinished_tasks(cluster, workers, tmp_path):
    with pytest.raises(WorkerError, match=r"number \d+: failed 3 times, the last time: .*died"):
        run(cluster, workers(Dying), tasks_that_add(str(tmp_path / "log")))


def test_workers_that_cannot_start_are_an_error_with_the_reason_until_they_can(
    cluster, workers, tmp_path, monkeypatch
):
    pool = workers(NotStarting)
    with pytest.raises(WorkerError, match=r"no worker could be started.*no such package here"):
        pool.run(tasks_that_add(str(tmp_path / "log")), nothing)
    monkeypatch.setattr(pool, "_to_start", workers()._to_start)
    assert run(cluster, pool, tasks_that_add(str(tmp_path / "log"))) == 4321
