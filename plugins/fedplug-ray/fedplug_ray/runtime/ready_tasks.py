"""The tasks that can begin: in order, and each rather on its node than on another.

A worker that finds nothing of its node takes what others would have done: none is idle while there is work.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["ReadyTasks"]

T = TypeVar("T")


class ReadyTasks(Generic[T]):
    """A queue for each node, and one, named "", for tasks that may be done anywhere.

    Args:
        waits: Whether a task has still to begin; those that have not are left out.
    """

    def __init__(self, waits: Callable[[T], bool]) -> None:
        self._waits = waits
        self._queues: dict[str, list[tuple[int, int, T]]] = {}
        self._pushes = itertools.count()

    def push(self, position: int, task: T, node: str) -> None:
        """Adds a task; lower positions begin first."""
        heapq.heappush(self._queues.setdefault(node, []), (position, next(self._pushes), task))

    def pop(self, nodes: Sequence[str]) -> tuple[T, str] | None:
        """Takes out the next task for workers that are idle.

        Args:
            nodes: Theirs; the longest idle first.

        Returns:
            The task, and the node on which to do it; None when there is no task, or no worker.
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
        """The order of a queue's first task; () when it has none."""
        entries = self._queues.get(queue, [])
        while entries and not self._waits(entries[0][-1]):
            heapq.heappop(entries)
        return entries[0][:2] if entries else ()
