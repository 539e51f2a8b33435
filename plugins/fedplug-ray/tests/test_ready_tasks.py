"""Tasks begin in order, on their own node while a worker of it is idle, and elsewhere rather than not."""

from __future__ import annotations

import pytest
from fedplug_ray.runtime import ready_tasks


@pytest.fixture
def ready():
    """Tasks 0 to 5: on node a, b, a, anywhere, b, a."""
    tasks = ready_tasks.ReadyTasks(lambda task: task != 2)  # which has begun meanwhile
    for position, node in enumerate(["a", "b", "a", "", "b", "a"]):
        tasks.push(position, position, node)
    return tasks


def taken(tasks, *nodes):
    """Returns the tasks that workers of these nodes get, in order."""
    return [tasks.pop([node]) for node in nodes]


def test_a_worker_is_given_the_next_of_its_node_or_of_those_for_anywhere(ready):
    assert taken(ready, "b", "b", "b") == [(1, "b"), (3, "b"), (4, "b")]
    assert taken(ready, "a", "a") == [(0, "a"), (5, "a")]
    assert ready.pop(["a", "b"]) is None


def test_a_worker_without_tasks_of_its_node_takes_the_first_of_all(ready):
    assert taken(ready, "c", "c", "c") == [(3, "c"), (0, "c"), (1, "c")]


def test_local_clients_come_before_longer_idle_workers(ready):
    assert ready.pop(["b", "a"]) == (1, "b")
    ready = ready_tasks.ReadyTasks(lambda task: True)
    ready.push(0, "x", "a")
    assert ready.pop(["b", "a"]) == ("x", "a")
    assert ready.pop(["a"]) is None
    assert ready.pop([]) is None
