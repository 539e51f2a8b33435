"""One call of a computation: its clients, how their work is run and stopped, what an error says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
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
        name: The computation, as an error names it.
        num_clients: How many clients take part.
        cancellation: Stops the call's TensorFlow functions; any thread may use it.
        client: The position of the client whose part of the call this is; None in the part of the server.
        one_thread: Whether this part has one thread: the clients beside it have the other processors.
    """

    def __init__(self, name: str, num_clients: int, pool: ClientPool) -> None:
        self.name = name
        self.num_clients = num_clients
        self.cancellation = Cancellation()
        self.client: int | None = None
        self.one_thread = False
        self._pool = pool

    def of(self, client: int | None) -> Invocation:
        """Returns the part of one client; or of the server while clients run."""
        part = Invocation.__new__(Invocation)
        part.__dict__.update(self.__dict__, client=client, one_thread=self._pool.is_full(self.num_clients))
        return part

    def each(self, count: int, work: Callable[[int], Any], take: Callable[[int, Any], None]) -> None:
        """Calls `take(position, work(position))` for `count` positions: in parallel, but taken in order.

        Raises:
            BaseException: The first failure in time; the rest of the call is stopped.
        """
        self._pool.run(count, work, take, self.cancellation.cancel)

    @contextlib.contextmanager
    def naming_failures(self, intrinsic: str) -> Iterator[None]:
        """Says which client met an error in an intrinsic, unless what it calls has said so.

        Raises:
            ComputationError: In the place of the error; of its class, too, where that is TensorFlow's.
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
