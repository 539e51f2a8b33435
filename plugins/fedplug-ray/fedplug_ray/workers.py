"""Gives tasks to idle workers, and replaces workers that die or take too long."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from fedplug.errors import WorkerError

__all__ = ["Limits", "Workers"]

_POLL_SECONDS = 0.1
_MAX_FAILED_STARTS = 3

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Limits:
    """Time and retry limits.

    Attributes:
        start_timeout: Seconds in which a worker must start.
        task_timeout: Seconds in which a task must end, including the transfer of its arguments.
        retries: Number of further tries of a task after its worker died or took too long.
    """

    start_timeout: float
    task_timeout: float
    retries: int


@dataclass(eq=False)
class _Worker:
    start: Callable[[], Any]
    actor: Any
    since: float


class Workers:
    """Workers that are replaced when they die. Any number of threads may use them.

    Args:
        starts: Functions that each make the actor of one worker, and its replacements. The actor has the
            methods `ready()` and `stop(number)`.
        limits: Time and retry limits.
    """

    def __init__(self, starts: Sequence[Callable[[], object]], limits: Limits) -> None:
        self.limits = limits
        self._to_start = list(starts)
        self._count = len(starts)
        self._changed = threading.Condition()
        self._told: queue.SimpleQueue[tuple[_Worker, Any]] = queue.SimpleQueue()
        self._starting: set[_Worker] = set()
        self._idle: list[_Worker] = []  # the longest idle first
        self._all: set[_Worker] = set()
        self._failed_starts = 0
        self._failure: BaseException | str = ""
        self._closed = False

    def run(
        self,
        submit: Callable[[Any, int], ray.ObjectRef[Any]],
        label: str,
        check: Callable[[], None],
    ) -> Any:
        """Runs a task on a worker, and returns its result.

        Args:
            submit: A function that submits the task to an actor under a number.
            label: Description of the task in errors.
            check: A function that is called several times a second. An error in it stops the task.

        Raises:
            WorkerError: The task failed too often, or no worker can be started.
            BaseException: The task or `check` raised it.
        """
        failure: BaseException | None = None
        for _ in range(1 + self.limits.retries):
            worker, number = self._take(check), next(_numbers)
            try:
                reference = submit(worker.actor, number)
            except BaseException:  # it cannot be pickled, for example
                self._give_back(worker)
                raise
            try:
                result = self._result(reference, check)
            except ray.exceptions.RayTaskError as error:
                self._give_back(worker)
                raise error.cause from error
            except (ray.exceptions.RayError, TimeoutError) as error:
                failure = error
                self._replace(worker)
            except BaseException:
                worker.actor.stop.remote(number)
                # It gets no other task before this one has ended.
                self._tell_when_done(reference, worker)
                raise
            else:
                self._give_back(worker)
                return result
        tries = 1 + self.limits.retries
        raise WorkerError(f"{label}: failed {tries} times, the last time: {_one_line(failure)}") from failure

    def close(self) -> None:
        """Ends the workers."""
        with self._changed:
            self._closed = True
            workers, self._all = self._all, set()
            self._changed.notify_all()
        if ray.is_initialized():
            for worker in workers:
                ray.kill(worker.actor)

    def _result(self, reference: ray.ObjectRef[object], check: Callable[[], None]) -> Any:
        end = time.monotonic() + self.limits.task_timeout
        while not ray.wait([reference], timeout=_POLL_SECONDS)[0]:
            check()
            if time.monotonic() > end:
                raise TimeoutError(f"it took longer than {self.limits.task_timeout} s")
        return ray.get(reference)

    def _take(self, check: Callable[[], None]) -> _Worker:
        """Waits for an idle worker."""
        with self._changed:
            self._failed_starts = 0 if not self._all else self._failed_starts  # the reason may be fixed
            while True:
                check()
                self._look_after()
                if self._idle:
                    return self._idle.pop(0)
                self._changed.wait(_POLL_SECONDS)

    def _look_after(self) -> None:
        """Starts workers, and gives up those that take too long to start."""
        if self._closed:
            raise WorkerError("the runtime was closed while a computation ran")
        self._hear()
        for worker in list(self._starting):
            if time.monotonic() - worker.since > self.limits.start_timeout:
                error = TimeoutError(f"it took longer than {self.limits.start_timeout} s")
                self._has_not_started(worker, error)
        while self._to_start and self._failed_starts < _MAX_FAILED_STARTS:
            start = self._to_start.pop()
            worker = _Worker(start, start(), time.monotonic())
            self._starting.add(worker)
            self._all.add(worker)
            self._tell_when_done(worker.actor.ready.remote(), worker)
        if not self._all:
            raise WorkerError(
                f"no worker could be started ({self._failed_starts} tries): {_one_line(self._failure)}; "
                f"does the cluster have the processors for {self._count} workers, and the same packages "
                "installed?"
            )

    def _tell_when_done(self, reference: ray.ObjectRef[object], worker: _Worker) -> None:
        """Puts an answer of a worker into the queue: Ray's thread must not wait for a lock."""
        told = self._told.put
        reference.future().add_done_callback(lambda future: told((worker, future)))

    def _hear(self) -> None:
        """Handles the answers of workers that started, or that ended a stopped task."""
        while not self._told.empty():
            worker, future = self._told.get()
            error = future.exception()
            if worker not in self._starting:
                if _has_died(error):
                    self._replace(worker)
                elif worker in self._all:
                    self._idle.append(worker)
            elif error is not None:
                self._has_not_started(worker, error)
            else:
                self._starting.remove(worker)
                self._failed_starts = 0
                self._idle.append(worker)

    def _has_not_started(self, worker: _Worker, error: BaseException) -> None:
        self._starting.remove(worker)
        self._failed_starts += 1
        self._failure = error
        self._replace(worker)

    def _give_back(self, worker: _Worker) -> None:
        with self._changed:
            self._idle.append(worker)
            self._changed.notify()

    def _replace(self, worker: _Worker) -> None:
        with self._changed:
            self._all.discard(worker)
            self._to_start.append(worker.start)
            self._changed.notify()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(worker.actor)


def _has_died(error: BaseException | None) -> bool:
    """Returns whether an error is of the worker, and not of its task."""
    return isinstance(error, ray.exceptions.RayError) and not isinstance(error, ray.exceptions.RayTaskError)


def _one_line(error: BaseException | str | None) -> str:
    """Returns an error's text as one line of at most 500 characters."""
    return " ".join(str(error).split())[:500]
