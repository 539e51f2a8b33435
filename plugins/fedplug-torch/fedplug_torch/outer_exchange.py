"""Exchanges the messages of outer steps over torch.distributed, in a thread if they are applied later."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

import torch.distributed as dist

from fedplug_torch.exchange import Exchange, RankError
from fedplug_torch.mean import Payload
from fedplug_torch.process_group import OwnGroup

__all__ = ["Messages", "OuterExchange"]

Messages = Mapping[str, Mapping[str, Payload]]
"""Untrusted payloads by name of the parameter, by name of the worker."""


class OuterExchange:
    """Sends one message at a time to all ranks of a process group, and receives theirs."""

    def __init__(self, group: OwnGroup, *, in_background: bool) -> None:
        """Takes the group of the ranks."""
        self._group = group
        self._in_background = in_background
        self._received: Future[Messages] | None = None
        if in_background and dist.is_initialized():
            group.connected()  # now, because all ranks wait for each other to connect

    def __getstate__(self) -> dict[str, object]:
        """Omits a message in transit, which a copy sends again."""
        return {**self.__dict__, "_received": None}

    @property
    def is_open(self) -> bool:
        """Whether a message was sent whose answers were not received yet."""
        return self._received is not None

    def send(
        self,
        encode: Callable[[], dict[str, bytes]],
        shared: Callable[[], dict[str, str]],
        limits: Mapping[str, int],
    ) -> None:
        """Encodes a message and begins to send it.

        Args:
            encode: Returns the payloads by name. Is called at once, and `receive` raises its error.
            shared: Returns texts that must be equal on all ranks. May be called in a thread.
            limits: Maximum size of each payload by name, see `Exchange.all_gather`.
        """
        problem, payloads = None, {}
        try:
            payloads = encode()
        except Exception as error:
            problem = error
        exchange = Exchange(self._group)

        def exchanged() -> Messages:
            exchange.require_same(shared(), "outer steps")
            with exchange.telling(limits):
                if problem is not None:
                    raise problem
            return exchange.all_gather(payloads, limits)

        self._received = _started(exchanged, in_background=self._in_background)

    def receive(self) -> Messages:
        """Waits for the messages of all ranks.

        Raises:
            RankError: A rank could not encode.
            PayloadError: A rank announced a wrong size.
            ArgumentError: The texts differ between ranks.
        """
        assert self._received is not None
        received, self._received = self._received, None
        return received.result()

    @contextlib.contextmanager
    def agreed(self) -> Iterator[None]:
        """Runs the body of a ``with`` as a part of an outer step that all ranks take, or none.

        Raises:
            RankError: The body has raised an error on a rank. The message names it.
        """
        try:
            with Exchange(self._group).agreed("take the outer step"):
                yield
        except RankError as error:
            raise RankError(
                f"{error}; no rank has taken it, and the next call of step() tries again; a rank that starts "
                "anew calls join() with the state_dict() of another rank"
            ) from error

    def abandon(self) -> None:
        """Waits until nothing is in transit, and drops the received messages."""
        if self._received is not None:
            self._received.exception()
            self._received = None


def _started(work: Callable[[], Messages], *, in_background: bool) -> Future[Messages]:
    """Calls a function, in a thread if wanted. The future has its result or error."""
    future: Future[Messages] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    if in_background:  # a daemon: this rank can end even if another one has died
        threading.Thread(target=run, daemon=True).start()
    else:
        run()
    return future
