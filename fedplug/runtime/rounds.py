"""One call of a computation: its clients, how their work is run and stopped, what an error says.

Must not know what the work is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from fedplug.errors import ComputationError
from fedplug.runtime.clients import ClientError, ClientPool
from fedplug.runtime.tensorflow_graphs import Cancellation
from fedplug.runtime.values import Clients

__all__ = ["Round"]


class Round:
    """The state of one call.

    Attributes:
        name: The computation, as an error names it.
        num_clients: How many clients take part.
        cancellation: Stops the call's TensorFlow functions; any thread may use it.
    """

    def __init__(self, name: str, num_clients: int, pool: ClientPool) -> None:
        self.name = name
        self.num_clients = num_clients
        self.cancellation = Cancellation()
        self._pool = pool

    def per_client(self, value: Any) -> Clients:
        """Returns one value per client, also of a value that is equal for all."""
        return value if isinstance(value, Clients) else Clients([value] * self.num_clients)

    def map(self, intrinsic: str, work: Callable[[Any], Any], values: Clients) -> Clients:
        """Returns `work(value)` of every client; the clients run in parallel.

        Raises:
            ComputationError: The first failure in time; the other clients are stopped.
        """
        try:
            return Clients(self._pool.map(work, values, self.cancellation.cancel))
        except ClientError as failure:
            raise self._error(
                intrinsic, failure.client, len(values), failure.__cause__
            ) from failure.__cause__

    def fold(self, intrinsic: str, add: Callable[[Any, Any], Any], start: Any, values: Clients) -> Any:
        """Returns `add(... add(add(start, first), second) ..., last)`: always in client order.

        Raises:
            ComputationError: `add` failed.
        """
        total = start
        for client, value in enumerate(values):
            try:
                total = add(total, value)
            except Exception as error:
                raise self._error(intrinsic, client, len(values), error) from error
        return total

    def _error(self, intrinsic: str, client: int, count: int, cause: BaseException | None) -> BaseException:
        if isinstance(cause, ComputationError) or not isinstance(cause, Exception):
            return cause if cause is not None else RuntimeError(intrinsic)
        what = cause.message if isinstance(cause, tf.errors.OpError) else str(cause)
        where = f"client {client} of {count} (counted from 0) failed in {intrinsic} of {self.name}"
        return ComputationError(f"{where}: {type(cause).__name__}: {what}", client=client)
