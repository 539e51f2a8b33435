"""Gives tasks to workers: one at a time each, in order, again elsewhere when a worker dies or takes too long.

A task is a pure function of other tasks' results, so it can be repeated: when a worker dies, when a machine
takes a result with it. Results are counted by task, so nothing counts twice.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from fedplug.errors import WorkerError
from fedplug.runtime.ray.ready_tasks import ReadyTasks

__all__ = ["Limits", "Task", "Workers"]

_POLL_SECONDS = 0.1
_MAX_FAILED_STARTS = 3

_numbers = itertools.count(1)  # of tasks: a worker is never given one of them twice


@dataclass(frozen=True)
class Limits:
    """How long to wait, and how often to try again.

    Attributes:
        start_timeout: Seconds until a worker must have started.
        task_timeout: Seconds until a task must be done, including the transfer of what it needs.
        retries: How often a task is tried again.
    """

    start_timeout: float
    task_timeout: float
    retries: int


@dataclass(eq=False)
class Task:
    """A piece of work.

    Attributes:
        label: What an error calls it.
        submit: Hands it to a worker under a number; returns references: one that tells its end, its result,
            and whatever else it returns.
        needs: Tasks that come first.
        consumes: Whether the results of `needs` are used up by it, and released.
        node: The id of the node on which it is best done, "" where that does not matter.
        may_be_lost: Whether, when all tries failed, `lost` is set instead of an error raised.
        result: The result, once it is done and until it is consumed.
        others: What else it returned.
        done: Whether it ended well.
        lost: Whether it was given up.
        tries: How often it failed.
    """

    label: str
    submit: Callable[[Any, int], Sequence[ray.ObjectRef[Any]]]
    needs: Sequence[Task] = ()
    consumes: bool = False
    node: str = ""
    may_be_lost: bool = False
    result: ray.ObjectRef[Any] | None = None
    others: Sequence[ray.ObjectRef[Any]] = ()
    done: bool = False
    lost: bool = False
    tries: int = 0

    def has_what(self, need: Task) -> bool:
        """Whether one of the tasks it needs is there for it."""
        return need.lost or (need.done and not (self.consumes and need.result is None))


@dataclass(eq=False)
class _Worker:
    """One worker, and what it is doing; `since` when. It is starting as long as it is not ready."""

    actor: Any
    since: float
    started: ray.ObjectRef[Any]
    ready: bool = False
    node: str = ""
    task: Task | None = None
    number: int = 0
    taken: Sequence[ray.ObjectRef[Any]] = field(default_factory=list)


class Workers:
    """A number of workers that are replaced when they die.

    Args:
        count: How many.
        start: Makes an actor, with the methods `ready()`, which returns the id of its node, and
            `stop(number)`.
        limits: How long to wait, and how often to try again.
    """

    def __init__(self, count: int, start: Callable[[], Any], limits: Limits) -> None:
        self.limits = limits
        self._count = count
        self._start = start
        self._turn = threading.Lock()  # every call uses all workers
        self._events: queue.SimpleQueue[tuple[_Worker, int, BaseException | None]] = queue.SimpleQueue()
        self._workers: set[_Worker] = set()
        self._idle: collections.deque[_Worker] = collections.deque()
        self._failed_starts = 0
        self._failure: BaseException | str = ""
        self._closed = False
        self._next_look = 0.0

    def run(self, tasks: Sequence[Task], check: Callable[[], None]) -> None:
        """Runs tasks, those given first as early as may be.

        Args:
            tasks: They may need one another, and tasks of earlier calls.
            check: Called several times a second; what it raises ends the call.

        Raises:
            WorkerError: A task failed too often, or no worker can be started.
            BaseException: What a task raised, or `check`.
        """
        while not self._turn.acquire(timeout=_POLL_SECONDS):
            check()
        try:
            self._failed_starts = 0  # what kept workers from starting may be fixed by now
            _Run(self, tasks).go(check)
        finally:
            # What still runs is stopped; a worker is given nothing new before it has ended.
            for worker in self._workers:
                if worker.task is not None:
                    worker.actor.stop.remote(worker.number)
            self._turn.release()

    def close(self) -> None:
        """Ends the workers."""
        self._closed = True
        if ray.is_initialized():
            for worker in self._workers:
                ray.kill(worker.actor)

    def look_after(self) -> None:
        """Gives up workers that take too long, and replaces those that were given up.

        Raises:
            WorkerError: There is none, and none can be started.
        """
        now = time.monotonic()
        if self._closed:
            raise WorkerError("the runtime was closed while a computation ran")
        if now < self._next_look:
            return
        self._next_look = now + _POLL_SECONDS
        for worker in self._workers:
            limit = self.limits.task_timeout if worker.ready else self.limits.start_timeout
            if (worker.task is not None or not worker.ready) and now - worker.since > limit:
                self._events.put((worker, worker.number, TimeoutError(f"it took longer than {limit} s")))
        while len(self._workers) < self._count and self._failed_starts < _MAX_FAILED_STARTS:
            actor = self._start()
            worker = _Worker(actor, now, actor.ready.remote())
            self._workers.add(worker)
            self._watch(worker, worker.started)
        if not self._workers:
            raise WorkerError(
                f"no worker could be started ({self._failed_starts} tries): {_text(self._failure)}; does the "
                f"cluster have the processors for {self._count} workers, and the same packages installed?"
            )

    def idle(self) -> list[str]:
        """The nodes of the workers that are idle, the longest first."""
        return [worker.node for worker in self._idle]

    def give(self, task: Task, node: str) -> None:
        """Gives a task to the worker of a node that is idle longest."""
        worker = next(worker for worker in self._idle if worker.node == node)
        number = next(_numbers)
        ended, *taken = task.submit(worker.actor, number)
        # Not before: what cannot be pickled raises an error, and keeps no worker busy.
        self._idle.remove(worker)
        worker.task, worker.number, worker.taken, worker.since = task, number, taken, time.monotonic()
        self._watch(worker, ended)

    def wait(self) -> tuple[Task, Sequence[ray.ObjectRef[Any]], BaseException | None] | None:
        """Waits a little for the end of a task; returns it, the references it was given, and the error."""
        try:
            worker, number, error = self._events.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return None
        if worker not in self._workers or worker.number != number:
            return None  # of one that was given up
        task, taken = worker.task, worker.taken
        worker.task, worker.taken = None, []
        if error is None or (worker.ready and isinstance(error, ray.exceptions.RayTaskError)):
            if not worker.ready:
                worker.ready, self._failed_starts = True, 0
                worker.node = ray.get(worker.started) or ""
            self._idle.append(worker)
        else:
            self._give_up(worker, error)
        return None if task is None else (task, taken, error)

    def _give_up(self, worker: _Worker, error: BaseException) -> None:
        self._workers.remove(worker)
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(worker.actor)
        if not worker.ready:
            self._failed_starts += 1
            self._failure = error

    def _watch(self, worker: _Worker, reference: ray.ObjectRef[Any]) -> None:
        number = worker.number
        reference.future().add_done_callback(
            lambda future: self._events.put((worker, number, future.exception()))
        )


class _Run:
    """One call of `Workers.run`: which tasks can begin, which are under way."""

    def __init__(self, workers: Workers, tasks: Sequence[Task]) -> None:
        self._workers = workers
        self._order = {task: position for position, task in enumerate(tasks)}
        self._waiting: dict[Task, list[Task]] = {}  # a task, and those that need it
        self._left = set(tasks)
        self._can_begin = ReadyTasks[Task](lambda task: task in self._left and task not in self._under_way)
        self._under_way: set[Task] = set()

    def go(self, check: Callable[[], None]) -> None:
        for task in self._order:
            self._require(task)
        while self._left:
            check()
            self._workers.look_after()
            self._begin()
            if ended := self._workers.wait():
                task, taken, error = ended
                if task in self._under_way:  # and not one of a call that was broken off
                    self._under_way.remove(task)
                    self._ended(task, taken, error)

    def _require(self, task: Task) -> None:
        """Sees to it that a task begins as soon as what it needs is there."""
        self._left.add(task)
        if task.consumes and all(need.lost for need in task.needs):
            task.lost = True
            self._finish(task)
            return
        missing = [need for need in task.needs if not task.has_what(need)]
        for need in missing:
            self._waiting.setdefault(need, []).append(task)
            if need not in self._left:
                need.done = False
                self._require(need)
        if not missing:
            position = self._order.get(task, -1)  # one of an earlier call holds up all others
            self._can_begin.push(position, task, task.node)

    def _begin(self) -> None:
        while chosen := self._can_begin.pop(self._workers.idle()):
            task, node = chosen
            self._workers.give(task, node)
            self._under_way.add(task)

    def _ended(self, task: Task, taken: Sequence[ray.ObjectRef[Any]], error: BaseException | None) -> None:
        if error is None:
            task.result, *task.others = taken
            task.done = True
            if task.consumes:
                for need in task.needs:
                    need.result = None
            self._finish(task)
        elif isinstance(error, ray.exceptions.ObjectLostError):
            self._count_failure(task, error)
            if not task.lost:
                self._redo_needs(task, error)
        elif isinstance(error, ray.exceptions.RayTaskError):
            raise error.cause from error
        else:
            self._count_failure(task, error)
        if task in self._left and not task.done:
            self._require(task)

    def _finish(self, task: Task) -> None:
        self._left.remove(task)
        for other in self._waiting.pop(task, []):
            if other in self._left and other not in self._under_way and all(map(other.has_what, other.needs)):
                self._require(other)

    def _count_failure(self, task: Task, error: BaseException) -> None:
        task.tries += 1
        if task.tries <= self._workers.limits.retries:
            return
        if not task.may_be_lost:
            raise WorkerError(f"{task.label}: failed {task.tries} times, the last time: {_text(error)}")
        task.lost = True
        self._finish(task)

    def _redo_needs(self, task: Task, error: BaseException) -> None:
        """Lets those whose results a task needs run again; which result was lost is not known."""
        if not task.needs:
            raise WorkerError(
                f"{task.label}: a value that it was given as a handle is lost with the machine that held it; "
                "give it the value itself, for instance from a store"
            ) from error
        for need in task.needs:
            need.done, need.result = False, None


def _text(error: BaseException | str) -> str:
    return " ".join(str(error).split())[:500]
