"""The actor that a worker of a cluster is, and how one is started.

Must not import TensorFlow before there is work: coordinators start workers, and need none themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray

from fedplug_ray.runtime.messages import Shared, Slice

__all__ = ["Worker", "start_worker"]


class Worker:
    """Lives in a process of its own, where it has a `ClientWork`.

    Args:
        clients: How many clients run at a time.
        setup: Called first, for instance to load a library of custom ops.
    """

    def __init__(self, clients: int, setup: Callable[[], Any] | None = None) -> None:
        from fedplug_ray.runtime.client_work import ClientWork

        self._work = ClientWork(clients, setup)

    def ready(self) -> str:
        """Returns the id of its node, when the worker has started."""
        node: str = ray.get_runtime_context().get_node_id()
        return node

    def run(self, task: int, program: Shared, inputs: Shared, part: Slice, *fetched: Any) -> tuple[Any, ...]:
        """Runs a stage for some clients: `ClientWork.run`."""
        return self._work.run(task, program, inputs, part, *fetched)

    def merge(self, task: int, program: Shared, *totals: Any) -> tuple[None, Any]:
        """Merges accumulators: `ClientWork.merge`."""
        return self._work.merge(task, program, *totals)

    def stop(self, task: int) -> None:
        """Makes a task under way end soon, with an error."""
        self._work.stop(task)


def start_worker(clients_at_a_time: int = 1, setup: Callable[[], Any] | None = None) -> Any:
    """Returns an actor that is a `Worker`; it may still be starting."""
    # Two threads, so that `stop` is received while `run` runs. Dead workers are replaced here, not by Ray.
    actor = ray.remote(Worker).options(num_cpus=clients_at_a_time, max_restarts=0, max_concurrency=2)
    return actor.remote(clients_at_a_time, setup)
