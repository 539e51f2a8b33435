"""A thread that exchanges the buckets of a backward pass while the next ones are computed."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator

import torch

__all__ = ["Worker"]


class Worker:
    """Runs the tasks of a step one after the other on a thread; after an error it omits the others.

    One thread and DDP's order of buckets give messages the same order on all ranks. Tasks of CUDA tensors run
    on a stream of the thread, so the GPU computes the next buckets at the same time.
    """

    def __init__(self) -> None:
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "fedplug")
        self._tasks: list[concurrent.futures.Future[None]] = []
        self._error: Exception | None = None
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def submit(self, task: Callable[[], None], result: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Returns a future that has the result after the task, also after an error.

        Args:
            task: A function that may write to the result.
            result: A tensor. On a GPU, the task follows the work that the current stream has so far, and who
                waits for the future follows the task.
        """
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future(
            devices=[result.device] if result.is_cuda else None
        )
        on_stream = self._following(result.device) if result.is_cuda else contextlib.nullcontext()

        def run() -> None:
            with on_stream:
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

    def _following(self, device: torch.device) -> contextlib.AbstractContextManager[None]:
        """Returns a context for work on the thread's stream, after what the current stream has so far."""
        stream = self._streams.get(device) or self._streams.setdefault(device, torch.cuda.Stream(device))
        ready = torch.cuda.current_stream(device).record_event()

        @contextlib.contextmanager
        def following() -> Iterator[None]:
            with torch.cuda.stream(stream):
                stream.wait_event(ready)
                yield

        return following()
