"""Gives tasks to workers in order, and replaces workers that die or take too long."""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray

from fedplug.errors import WorkerError
from fedplug_ray.runtime.tasks import Choose, Run, Task, one_line

__all__ = ["Limits", "Task", "Workers"]

_POLL_SECONDS = 0.1
_MAX_FAILED_STARTS = 3

# Task numbers, unique for each attempt. They begin with the time, so that they differ between processes: a
# worker remembers the numbers that its earlier coordinator stopped.
_numbers = itertools.count(time.time_ns())
_READY = 0


@dataclass(frozen=True)
class Limits:
    """Time and retry limits.

    Attributes:
        start_timeout: Seconds in which a worker must start.
        task_timeout: Seconds in which a task must end, including the transfer of its arguments.
        retries: Number of further tries of a failed task.
        silence: Seconds in which a worker must answer a health check; None: there are no health checks.
    """

    start_timeout: float
    task_timeout: float
    retries: int
    silence: float | None = None


@dataclass(frozen=True)
class _Given:
    """A task that a worker has: the references that its submission returned, and the time of submission."""

    task: Task
    taken: Sequence[Any]
    since: float


@dataclass(eq=False)
class _Worker:
    """A worker and its running tasks by number. `asked` is the time of the last health check."""

    start: Callable[[], Any]
    actor: Any
    asked: float
    answered: bool = False
    ready: bool = False
    node: str = ""
    load: int = 0
    given: dict[int, _Given] = field(default_factory=dict)


class _Event(NamedTuple):
    """A task has ended, or a worker is ready (then the number is `_READY`); either may have an error."""

    worker: _Worker
    number: int
    told: Any
    error: BaseException | None


class Workers:
    """Workers that are replaced when they die.

    Args:
        starts: Functions that each make the actor of one worker, and its replacements. The actor has the
            methods `ready()`, which returns the id of its node or None, and `stop(number)`.
        limits: Time and retry limits.
        capacity: Total size of the tasks that a worker has at a time.
    """

    def __init__(self, starts: Sequence[Callable[[], Any]], limits: Limits, capacity: int = 1) -> None:
        self.limits = limits
        self._to_start = collections.deque(starts)
        self._count = len(starts)
        self._capacity = capacity
        self._turn = threading.Lock()  # each call of `run` uses all workers
        self._events: queue.SimpleQueue[_Event | None] = queue.SimpleQueue()
        self._workers: set[_Worker] = set()
        self._free: dict[_Worker, None] = {}  # workers with spare capacity, the longest idle first
        self._failed_starts = 0
        self._failure: BaseException | str = ""
        self._closed = False
        self._next_look = 0.0

    def run(self, tasks: Sequence[Task], check: Callable[[], None], choose: Choose | None = None) -> None:
        """Runs tasks, the first ones as early as possible.

        Args:
            tasks: Tasks, which may need one another and tasks of earlier calls.
            check: A function that is called several times a second; an error in it ends the call.
            choose: See `Run`.

        Raises:
            WorkerError: A task failed too often, or no worker can be started.
            BaseException: A task or `check` raised it.
        """
        while not self._turn.acquire(timeout=_POLL_SECONDS):
            check()
        try:
            self.try_starting_again()
            run = Run(tasks, self.idle, self.give, self.limits.retries, choose)
            while run.left:
                check()
                self.look_after()
                run.begin()
                if ended := self.wait():
                    run.take(*ended)
                if run.left_out:
                    self.stop(run.left_out.__contains__)
                    run.left_out.clear()
        finally:
            # A worker gets no new task before these have ended.
            self.stop(lambda task: True)
            self._turn.release()

    def try_starting_again(self) -> None:
        """Resets the count of failed starts, because the reason may be fixed by now."""
        self._failed_starts = 0

    def stop(self, which: Callable[[Task], bool]) -> None:
        """Tells workers to cancel the running tasks that `which` selects."""
        for worker in self._workers:
            for number, given in worker.given.items():
                if which(given.task):
                    worker.actor.stop.remote(number)

    def close(self) -> None:
        """Ends the workers."""
        self._closed = True
        if ray.is_initialized():
            for worker in self._workers:
                ray.kill(worker.actor)

    def look_after(self) -> None:
        """Gives up workers that take too long, and replaces them.

        Raises:
            WorkerError: There are no workers, and none can be started.
        """
        now = time.monotonic()
        if self._closed:
            raise WorkerError("the runtime was closed while a computation ran")
        if now < self._next_look:
            return
        self._next_look = now + _POLL_SECONDS
        for worker in self._workers:
            for number, since, limit in self._waits_of(worker):
                if now - since > limit:
                    error = TimeoutError(f"it took longer than {limit} s")
                    self._events.put(_Event(worker, number, None, error))
            if self.limits.silence and worker.answered and now - worker.asked > self.limits.silence / 2:
                self._ask(worker)
        while self._to_start and self._failed_starts < _MAX_FAILED_STARTS:
            start = self._to_start[0]
            worker = _Worker(start, start(), now)
            self._to_start.popleft()
            self._workers.add(worker)
            self._ask(worker)
        if not self._workers:
            raise WorkerError(
                f"no worker could be started ({self._failed_starts} tries): {one_line(self._failure)}; "
                f"does the cluster have the processors for {self._count} workers, and the same packages "
                "installed?"
            )

    def idle(self) -> list[str]:
        """Returns the nodes of workers with spare capacity, the longest idle first."""
        return list(dict.fromkeys(worker.node for worker in self._free))

    def give(self, task: Task, node: str) -> None:
        """Gives a task to the least loaded worker of a node."""
        on_node = (worker for worker in self._free if worker.node == node)
        worker, number = min(on_node, key=lambda worker: worker.load), next(_numbers)
        ended, *taken = task.submit(worker.actor, number)
        # After `submit`, which raises if a task cannot be pickled: then no worker is busy.
        worker.given[number] = _Given(task, taken, time.monotonic())
        worker.load += task.size
        if worker.load >= self._capacity:
            del self._free[worker]
        self._watch(worker, number, ended)

    def wait(self) -> tuple[Task, Sequence[Any], Any, BaseException | None] | None:
        """Waits up to 0.1 s for the end of a task; returns the arguments of `Run.take`, or None."""
        try:
            event = self._events.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return None
        if event is None:
            return None
        worker, number, told, error = event
        given = worker.given.pop(number, None)
        if given is None and number != _READY:
            return None  # the task took too long and was given up
        if given is not None:
            worker.load -= given.task.size
        if worker in self._workers:
            if error is None or (worker.ready and isinstance(error, ray.exceptions.RayTaskError)):
                if number == _READY:
                    worker.answered = True
                if not worker.ready:
                    worker.ready, worker.node, self._failed_starts = True, told or "", 0
                if worker.load < self._capacity:
                    self._free[worker] = None
            elif number != _READY or not worker.answered:
                self._give_up(worker, error)
        return None if given is None else (given.task, given.taken, told, error)

    def has(self, actor: Any) -> bool:
        """Returns whether this actor is a worker that was not given up."""
        return any(worker.actor is actor for worker in self._workers)

    def wake(self) -> None:
        """Makes `wait` return; any thread may call this."""
        self._events.put(None)

    def _waits_of(self, worker: _Worker) -> list[tuple[int, float, float]]:
        """Returns what a worker must still answer: number, time of the request, and limit in seconds."""
        waits = [(number, given.since, self.limits.task_timeout) for number, given in worker.given.items()]
        if not worker.answered:
            limit = self.limits.silence if worker.ready else self.limits.start_timeout
            waits.append((_READY, worker.asked, limit or self.limits.start_timeout))
        return waits

    def _ask(self, worker: _Worker) -> None:
        worker.asked, worker.answered = time.monotonic(), False
        self._watch(worker, _READY, worker.actor.ready.remote())

    def _give_up(self, worker: _Worker, error: BaseException) -> None:
        self._workers.remove(worker)
        self._free.pop(worker, None)
        self._to_start.append(worker.start)
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(worker.actor)  # which also ends its other tasks
        if not worker.ready:
            self._failed_starts += 1
            self._failure = error

    def _watch(self, worker: _Worker, number: int, reference: ray.ObjectRef[Any]) -> None:
        def ended(future: Any) -> None:
            error = future.exception()
            told = None if error is not None else future.result()
            self._events.put(_Event(worker, number, told, error))

        reference.future().add_done_callback(ended)
