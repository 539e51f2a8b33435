"""Decides which slices a round takes if it has more clients than it needs.

The slices are in order of preference: first those of the needed clients, then the reserve.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from fedplug_ray.runtime.tasks import Task

__all__ = ["FirstOf"]


class FirstOf:
    """Decides on the tasks of slices as they end.

    Args:
        tasks: Tasks of the slices, in order of preference.
        clients: Number of clients in each slice.
        needed: Number of clients that the round needs.
        first: `"order"`: takes the needed slices, and one of the reserve, in its order, for each that was
            given up. The choice depends on which slices were given up, not on timing. `"done"`: takes the
            slices that end first.

    Attributes:
        taken: Number of clients that have been taken.
    """

    def __init__(self, tasks: Sequence[Task], clients: Sequence[int], needed: int, first: str) -> None:
        self.taken = 0
        self._clients = dict(zip(tasks, clients, strict=True))
        self._needed = needed
        self._reserve_done: dict[Task, bool] = {}
        self._first: dict[Task, None] = {}
        self._reserve: collections.deque[Task] = collections.deque()
        before = 0
        for task, count in self._clients.items():
            if first == "done" or before < needed:
                self._first[task] = None
            else:
                self._reserve.append(task)
            before += count

    def ended(self, task: Task, well: bool) -> tuple[list[Task], list[Task]]:
        """Records the end of a task: `well` says whether it succeeded or was given up.

        Returns:
            The tasks that this decides the round takes, and those that it leaves out.
        """
        taken: list[Task] = []
        if task in self._first:
            del self._first[task]
            if well:
                taken.append(task)
        elif task in self._reserve:
            self._reserve_done[task] = well
        elif well:
            taken.append(task)  # repeated, or not a slice
            return taken, []
        self.taken += sum(self._clients[each] for each in taken)
        while not self._first and self.taken < self._needed and self._reserve:
            if self._reserve[0] not in self._reserve_done:
                break
            following = self._reserve.popleft()
            if self._reserve_done[following]:
                taken.append(following)
                self.taken += self._clients[following]
        if self.taken < self._needed:
            return taken, []
        left_out = [*self._first, *self._reserve]
        self._first.clear()
        self._reserve.clear()
        return taken, left_out
