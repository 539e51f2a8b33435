"""One call of a computation: its clients, how their work runs and stops, and the text of errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from fedplug.errors import ComputationError
from fedplug.tff.runtime.computation_errors import computation_error
from fedplug.tff.runtime.graphs.cancellation import Cancellation
from fedplug.tff.runtime.inprocess.clients import ClientPool

__all__ = ["Invocation"]


class Invocation:
    """The state of one call.

    Attributes:
        name: Name of the computation in errors.
        num_clients: Number of clients that take part.
        cancellation: The object that cancels the call's TensorFlow functions, from any thread.
        client: The position of the client whose part of the call this is. None in the server's part.
        one_thread: Whether this part runs in one thread, because other clients use the other processors.
    """

    def __init__(self, name: str, num_clients: int, pool: ClientPool) -> None:
        self.name = name
        self.num_clients = num_clients
        self.cancellation = Cancellation()
        self.client: int | None = None
        self.one_thread = False
        self._pool = pool

    def of(self, client: int | None) -> Invocation:
        """Returns the part of one client, or of the server while clients run."""
        part = Invocation.__new__(Invocation)
        part.__dict__.update(self.__dict__, client=client, one_thread=self._pool.is_full(self.num_clients))
        return part

    def each(self, count: int, work: Callable[[int], Any], take: Callable[[int, Any], None]) -> None:
        """Calls `take(position, work(position))` for `count` positions: in parallel, but taken in order.

        Raises:
            BaseException: The first failure in time. The rest of the call is stopped.
        """
        self._pool.run(count, work, take, self.cancellation.cancel)

    def elsewhere(self, work: Any, given: Mapping[str, Any]) -> Callable[[int], Any] | None:
        """Returns the function that has a client's work done outside of this process. None: it is done here.

        Args:
            work: The `ClientWork` of each client.
            given: The values that it uses, by name. Those that differ by client are for all clients.
        """
        return self._pool.elsewhere(work, given, self)

    @contextlib.contextmanager
    def naming_failures(self, intrinsic: str) -> Iterator[None]:
        """Converts an error in an intrinsic into one that names the client, unless it does already.

        Raises:
            ComputationError: Replaces the error. It is also an instance of the error's TensorFlow class.
        """
        try:
            yield
        except ComputationError:
            raise
        except Exception as error:
            what = error.message if isinstance(error, tf.errors.OpError) else str(error)
            who = f"client {self.client} of {self.num_clients} (counted from 0)"
            message = f"{who} failed in {intrinsic} of {self.name}: {type(error).__name__}: {what}"
            raise computation_error(message, error, self.client) from error
