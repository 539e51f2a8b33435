"""A coordinator: a process between the driver and a share of the workers, which hands out slices.

To the driver, a coordinator is a worker that takes several blocks of slices at a time. It computes a subtree
of the tree of merges, so it does not change the bits of a result. Accumulators and clients' values stay with
the workers; a coordinator has references to them. It does not import TensorFlow, to start fast and small.
"""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from fedplug.errors import WorkerError
from fedplug_ray.runtime.columns import Column, unpack
from fedplug_ray.runtime.dispatch import Limits, Workers
from fedplug_ray.runtime.messages import Given, OnWorker, Shared
from fedplug_ray.runtime.shelves import find, lost
from fedplug_ray.runtime.slices import StageOfRound, in_order, merge_tasks, slice_task
from fedplug_ray.runtime.tasks import Run, Task

__all__ = ["Block", "Coordinator"]


@dataclass(frozen=True)
class Block:
    """Neighbouring slices of a round.

    Attributes:
        stage: The stage.
        slices: The positions in the round of the clients of each slice.
        columns: The packed `Given`, `OnWorker` or `Place` of each client, for each client value of the stage.
    """

    stage: StageOfRound
    slices: list[range]
    columns: list[Column]


@dataclass(eq=False)
class _Job:
    """Tasks that the driver waits for."""

    number: int
    tasks: list[Task]
    run: Run
    ended: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def attempt(self, step: Callable[[], None]) -> None:
        """Runs a step; an error in it ends only this job."""
        try:
            step()
        except Exception as error:
            self.error = error


class Coordinator:
    """A Ray actor that hands out blocks of slices to its own workers.

    Args:
        starts: Functions that each make the actor of one `fedplug_ray.runtime.worker.Worker`.
        limits: Time and retry limits of the workers.
    """

    def __init__(self, starts: Sequence[Callable[[], Any]], limits: Limits) -> None:
        self._workers = Workers(starts, limits)
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._stopped: set[int] = set()
        self._kept: dict[int, list[ray.ObjectRef[Any] | None]] = {}
        threading.Thread(target=self._hand_out, daemon=True).start()

    def ready(self) -> None:
        """Returns when the coordinator has started; its workers may still be starting."""

    def run(self, number: int, block: Block) -> tuple[list[int], list[ray.ObjectRef[Any]]]:
        """Runs a stage for a block of slices, and keeps the clients' values under the task's number.

        Returns:
            The indices of lost slices, and a list with the reference to the accumulators. The list is empty
            if all slices were lost.

        Raises:
            ComputationError: A part of the stage failed; `client` is the position in the round.
            ObjectLostError: Ray has lost an argument.
            WorkerError: Workers died or took too long more often than `retries` allows.
        """
        self._kept[number] = []
        stage, values = block.stage, [unpack(column) for column in block.columns]
        held = [[v for v in column if not isinstance(v, Given | OnWorker)] for column in values]
        places = [place for column in held for place in column]
        references = dict(zip(map(id, places), find(places, self._mine), strict=True))
        tasks, first = [], 0
        for clients in block.slices:
            columns = [column[first : first + len(clients)] for column in values]
            tasks.append(slice_task(stage, clients, columns, lambda place: references[id(place)]))
            first += len(clients)
        merges = merge_tasks(stage, tasks)
        self._do(number, in_order(tasks, merges))
        kept: list[ray.ObjectRef[Any] | None] = []
        for name in range(len(stage.stays)):
            for task, clients in zip(tasks, block.slices, strict=True):
                mine = task.others[name * len(clients) : (name + 1) * len(clients)]
                kept += [None] * len(clients) if task.lost else mine
        if number in self._kept:  # the driver still needs it
            self._kept[number] = kept
        last = (merges or tasks)[-1]
        lost = [index for index, task in enumerate(tasks) if task.lost]
        return lost, [] if last.result is None else [last.result]

    def merge(
        self, number: int, program: Shared, *totals: list[ray.ObjectRef[Any]]
    ) -> tuple[None, list[ray.ObjectRef[Any]]]:
        """Merges accumulators from left to right; they have the form of the result of `run`."""
        references = [reference for total in totals for reference in total]
        if not references:
            return None, []

        def submit(actor: Any, number: int) -> Sequence[ray.ObjectRef[Any]]:
            return list(actor.merge.options(num_returns=2).remote(number, program, *references))

        task = Task("a merge of accumulators", submit)
        self._do(number, [task])
        assert task.result is not None
        return None, [task.result]

    def stop(self, number: int) -> None:
        """Cancels the task with this number, which then ends with an error."""
        self._stopped.add(number)
        self._workers.wake()

    def lend(self, places: list[tuple[int, int]]) -> list[ray.ObjectRef[Any]]:
        """Returns references to clients' values, by task number and position.

        Raises:
            ObjectLostError: The coordinator does not have them.
        """
        found = [self._mine(number, position) for number, position in places]
        there = [reference for reference in found if reference is not None]
        if len(there) < len(found):
            raise lost()
        return there

    def let_go(self, numbers: list[int]) -> None:
        """Drops the clients' values of these tasks."""
        for number in numbers:
            self._kept.pop(number, None)

    def _mine(self, number: int, position: int) -> ray.ObjectRef[Any] | None:
        kept = self._kept.get(number)
        return kept[position] if kept else None

    def _do(self, number: int, tasks: list[Task]) -> None:
        """Runs tasks and waits for them."""
        job = _Job(
            number, tasks, Run(tasks, self._workers.idle, self._workers.give, self._workers.limits.retries)
        )
        self._jobs.put(job)
        self._workers.wake()
        job.ended.wait()
        if job.error is not None:
            raise job.error

    def _hand_out(self) -> None:
        """Runs in a thread for the life of the process; earlier jobs get workers first."""
        jobs: list[_Job] = []
        while True:
            while not self._jobs.empty():
                jobs.append(self._jobs.get())
                self._workers.try_starting_again()
            try:
                self._workers.look_after()
            except WorkerError as error:
                for job in jobs:
                    job.error = error
            for job in jobs:
                if job.number in self._stopped:
                    job.error = WorkerError("it was stopped")
                if job.error is None:
                    job.attempt(job.run.begin)
            jobs = [job for job in jobs if not self._has_ended(job)]
            if (ended := self._workers.wait()) is not None:
                for job in jobs:
                    job.attempt(functools.partial(job.run.take, *ended))
                jobs = [job for job in jobs if not self._has_ended(job)]

    def _has_ended(self, job: _Job) -> bool:
        if job.error is None and job.run.left:
            return False
        if job.error is not None:
            self._workers.stop(lambda task: task in job.tasks)
        self._stopped.discard(job.number)
        job.ended.set()
        return True
