"""Runs one piece of work per client, several at a time, and takes the results in client order.

A client's result is taken as soon as the results of all earlier clients are, and then released. Only a few
results exist at a time, whatever the number of clients.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from fedplug.errors import ConfigError
from fedplug.tff.runtime.graphs.devices import RuntimeDevice

__all__ = ["ClientPool"]


class ClientPool:
    """A bounded number of threads that share the clients of a round.

    Args:
        width: Number of clients that run at a time. None: the number of processors of this process.
        device: The device on which the pool's threads work. None: the CPU.

    Attributes:
        width: Number of clients that run at a time.
        window: Maximum number of results that wait for an earlier client's result.

    Raises:
        ConfigError: The width is less than 1.
    """

    def __init__(self, width: int | None = None, device: RuntimeDevice | None = None) -> None:
        self._processors = len(os.sched_getaffinity(0))
        self.width = width if width is not None else self._processors
        if self.width < 1:
            raise ConfigError(f"max_concurrent_clients is {width}; at least one client must run at a time")
        self.window = 2 * self.width
        # The calling thread works too, so a pool of one needs no thread, and pools never wait for each other.
        self._helpers = ThreadPoolExecutor(
            max(1, self.width - 1),
            thread_name_prefix="fedplug-client",
            initializer=(device or RuntimeDevice()).enter,
        )

    def is_full(self, clients: int) -> bool:
        """Returns whether this many clients leave no processor idle."""
        return min(clients, self.width) >= self._processors

    def elsewhere(self, work: Any, given: Mapping[str, Any], invocation: Any) -> Callable[[int], Any] | None:
        """See `Invocation.elsewhere`. The threads of this pool do all work here."""
        del work, given, invocation
        return None

    def run(
        self,
        clients: int,
        work: Callable[[int], Any],
        take: Callable[[int, Any], None],
        on_failure: Callable[[], None],
    ) -> None:
        """Calls `take(client, work(client))` for every client.

        `work` runs concurrently. `take` runs in client order, one call at a time, in any thread. After the
        first failure, no further client starts, and `on_failure` is called to stop running clients.

        Raises:
            BaseException: The first error, in time, of `work` or `take`.
        """
        line = _Line(clients, self.window, work, take, on_failure)
        helpers = [self._helpers.submit(line.share) for _ in range(min(self.width, clients) - 1)]
        line.share()
        for helper in helpers:
            helper.cancel()  # a helper that has not begun has nothing to do
        wait(helpers)
        if line.failures:
            raise line.failures[0]


class _Line:
    """The clients of one run: not begun, running, or done and waiting to be taken."""

    def __init__(
        self,
        clients: int,
        window: int,
        work: Callable[[int], Any],
        take: Callable[[int, Any], None],
        on_failure: Callable[[], None],
    ) -> None:
        self.failures: list[BaseException] = []
        self._work, self._take, self._on_failure = work, take, on_failure
        self._window = window
        self._clients = iter(range(clients))  # shared, because `next` is atomic
        self._changed = threading.Condition()
        self._waiting: dict[int, Any] = {}
        self._taken = 0
        self._taking = False

    def share(self) -> None:
        """Runs one client after the other, until none is left or one fails."""
        try:
            for client in self._clients:
                with self._changed:
                    self._changed.wait_for(lambda: self.failures or client < self._taken + self._window)  # noqa: B023
                    if self.failures:
                        return
                result = self._work(client)
                with self._changed:
                    self._waiting[client] = result
                del result
                self._take_those_whose_turn_it_is()
        except BaseException as error:
            with self._changed:
                self.failures.append(error)
                self._changed.notify_all()
            if self.failures[0] is error:
                self._on_failure()

    def _take_those_whose_turn_it_is(self) -> None:
        while True:
            with self._changed:
                # The thread that takes looks here again before it stops, so that no result is forgotten.
                if self._taking or self._taken not in self._waiting or self.failures:
                    return
                self._taking = True
                client, result = self._taken, self._waiting.pop(self._taken)
            self._take(client, result)
            del result
            with self._changed:
                self._taking = False
                self._taken += 1
                self._changed.notify_all()
