"""A queue of tasks that can begin: in order, and preferably each on its own node.

A worker without a task for its node takes one for another node: no worker is idle while there is work.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["ReadyTasks"]

T = TypeVar("T")


class ReadyTasks(Generic[T]):
    """One queue for each node, and the queue "" for tasks that may run on any node.

    Args:
        waits: A function that says whether a task still has to begin; other tasks are skipped.
    """

    def __init__(self, waits: Callable[[T], bool]) -> None:
        self._waits = waits
        self._queues: dict[str, list[tuple[int, int, T]]] = {}
        self._pushes = itertools.count()

    def push(self, position: int, task: T, node: str) -> None:
        """Adds a task; tasks with lower positions begin first."""
        heapq.heappush(self._queues.setdefault(node, []), (position, next(self._pushes), task))

    def pop(self, nodes: Sequence[str]) -> tuple[T, str] | None:
        """Removes and returns the next task for idle workers.

        Args:
            nodes: Nodes of the idle workers, the longest idle first.

        Returns:
            The task and the node to run it on; None if there is no task or no worker.
        """
        for node in nodes:
            if queues := [queue for queue in {"", node} if self._head(queue)]:
                return self._take(min(queues, key=self._head)), node
        if nodes and (queues := [queue for queue in self._queues if self._head(queue)]):
            return self._take(min(queues, key=self._head)), nodes[0]
        return None

    def _take(self, queue: str) -> T:
        return heapq.heappop(self._queues[queue])[-1]

    def _head(self, queue: str) -> tuple[int, ...]:
        """Returns the order of a queue's first task, or () if the queue is empty."""
        entries = self._queues.get(queue, [])
        while entries and not self._waits(entries[0][-1]):
            heapq.heappop(entries)
        return entries[0][:2] if entries else ()
