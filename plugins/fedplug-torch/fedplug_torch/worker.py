"""A thread that exchanges the buckets of a backward pass while the next ones are computed."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable

import torch

__all__ = ["Worker"]


class Worker:
    """Runs the tasks of a step one after the other on a thread; after an error it omits the others.

    One thread and DDP's order of buckets give messages the same order on all ranks.
    """

    def __init__(self) -> None:
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "fedplug")
        self._tasks: list[concurrent.futures.Future[None]] = []
        self._error: Exception | None = None

    def submit(self, task: Callable[[], None], result: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Returns a future that has the result after the task, also after an error."""
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def run() -> None:
            try:
                if self._error is None:
                    task()
            except Exception as error:
                self._error = error
            finally:
                done.set_result(result)

        self._tasks.append(self._thread.submit(run))
        return done

    def finish(self) -> Exception | None:
        """Waits for all tasks of a step; returns the error of the first one that failed."""
        concurrent.futures.wait(self._tasks)
        error, self._error, self._tasks = self._error, None, []
        return error
