"""Runs one piece of work per client, several at a time, results in client order.

Must not know TFF or TensorFlow: here is nothing but threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

__all__ = ["ClientError", "ClientPool"]


class ClientError(Exception):
    """The work of one client failed; the exception it raised is the `__cause__`."""

    def __init__(self, client: int) -> None:
        super().__init__(client)
        self.client = client


class ClientPool:
    """A bounded number of threads that share the clients of a round.

    Args:
        width: How many clients run at a time; the processors this process may use, if None.
    """

    def __init__(self, width: int | None = None) -> None:
        self.width = width if width is not None else len(os.sched_getaffinity(0))
        if self.width < 1:
            raise ValueError(f"at least one client must run at a time, got max_concurrent_clients={width}")
        # The calling thread takes its share, so a pool of one needs no thread, and pools never wait for one
        # another.
        self._helpers = ThreadPoolExecutor(max(1, self.width - 1), thread_name_prefix="fedplug-client")

    def map(
        self, work: Callable[[Any], Any], items: Sequence[Any], on_failure: Callable[[], None]
    ) -> list[Any]:
        """Returns `work(item)` for every item, in their order.

        After the first failure no further client starts, and `on_failure` is called, so that it can stop
        those that run.

        Raises:
            ClientError: Of the first failure in time.
        """
        results: list[Any] = [None] * len(items)
        failures: list[tuple[int, BaseException]] = []
        positions = iter(range(len(items)))  # shared: `next` on it is atomic
        failed = threading.Event()

        def share() -> None:
            for position in positions:
                if failed.is_set():
                    return
                try:
                    results[position] = work(items[position])
                except BaseException as error:
                    failures.append((position, error))
                    if not failed.is_set():
                        failed.set()
                        on_failure()
                    return

        helpers = [self._helpers.submit(share) for _ in range(min(self.width, len(items)) - 1)]
        share()
        for helper in helpers:
            helper.cancel()  # one that has not begun has nothing left to do
        wait(helpers)
        if failures:
            client, cause = failures[0]
            raise ClientError(client) from cause
        return results
