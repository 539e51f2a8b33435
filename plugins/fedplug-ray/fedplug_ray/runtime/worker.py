"""A worker: a Ray actor that runs slices and merges.

This module does not import TensorFlow, because coordinators import it to start workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray

from fedplug_ray.runtime.messages import Shared, Slice

__all__ = ["Worker", "start_worker"]


class Worker:
    """An actor that runs tasks with a `ClientWork`.

    Args:
        clients: Number of clients that run at a time.
        setup: A function that is called first, for instance to load a library of custom ops.
    """

    def __init__(self, clients: int, setup: Callable[[], Any] | None = None) -> None:
        from fedplug_ray.runtime.client_work import ClientWork

        self._work = ClientWork(clients, setup)

    def ready(self) -> str:
        """Returns the id of the worker's node once the worker has started."""
        node: str = ray.get_runtime_context().get_node_id()
        return node

    def run(self, task: int, program: Shared, inputs: Shared, part: Slice, *fetched: Any) -> tuple[Any, ...]:
        """Runs a stage for a slice of clients; see `ClientWork.run`."""
        return self._work.run(task, program, inputs, part, *fetched)

    def merge(self, task: int, program: Shared, *totals: Any) -> tuple[None, Any]:
        """Merges accumulators; see `ClientWork.merge`."""
        return self._work.merge(task, program, *totals)

    def stop(self, task: int) -> None:
        """Cancels a running task, which then ends with an error."""
        self._work.stop(task)


def start_worker(clients_at_a_time: int = 1, setup: Callable[[], Any] | None = None) -> Any:
    """Returns the actor of a new `Worker`, which may still be starting."""
    # Two threads, so that `stop` arrives while `run` runs. `Workers` replaces dead workers, not Ray.
    actor = ray.remote(Worker).options(num_cpus=clients_at_a_time, max_restarts=0, max_concurrency=2)
    return actor.remote(clients_at_a_time, setup)
