"""One call of a computation: its clients, how their work runs and stops, and its errors.

A client's result is taken as soon as the results of all earlier clients are, and then released. Only a few
results exist at a time, whatever the number of clients. Errors keep the TensorFlow type of their cause.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait

import tensorflow as tf

from fedplug.errors import ComputationError, ConfigError
from fedplug.tff.runtime.graphs.devices import RuntimeDevice
from fedplug.tff.runtime.graphs.registered_function import Cancellation
from fedplug.tff.runtime.inprocess.values import Value

__all__ = ["ClientPool", "Invocation", "computation_error"]


def computation_error(message: str, cause: BaseException, client: int | None = None) -> ComputationError:
    """Returns a `ComputationError` that also has the TensorFlow class of `cause`, if that has one.

    Args:
        message: The text of the error.
        cause: The error to replace, which may be a result of this function.
        client: The position of the client. None at the server.
    """
    if not isinstance(cause, tf.errors.OpError):
        return ComputationError(message, client)
    # Without the operation: it cannot be pickled, and it would add its stack to the text.
    attributes = {**vars(cause), "_message": message, "_op": None, "client": client}
    return _restored(_kind_of(cause), message, attributes)


class _TensorFlowComputationError(ComputationError):
    """The base of errors that also have a TensorFlow class."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (_kind_of(self), self.args[0], vars(self))


def _kind_of(error: BaseException) -> Value:
    """Returns the TensorFlow class of an error, also of a result of `computation_error`."""
    kinds = (base for base in type(error).__mro__ if issubclass(base, tf.errors.OpError))
    return next(kind for kind in kinds if not issubclass(kind, ComputationError))


def _restored(kind: Value, message: str, attributes: dict[str, object]) -> ComputationError:
    both = _class_of_both(kind)
    error = both.__new__(both)  # the constructors of TensorFlow's classes differ
    error.args = (message,)
    vars(error).update(attributes)
    return error


@functools.cache
def _class_of_both(kind: Value) -> type[ComputationError]:
    return type(kind.__name__, (_TensorFlowComputationError, kind), {"__module__": __name__})


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

    def elsewhere(
        self, work: Value, given: Mapping[str, Value], invocation: Invocation
    ) -> Callable[[int], Value] | None:
        """See `Invocation.elsewhere`. The threads of this pool do all work here."""
        del work, given, invocation
        return None

    def run(
        self,
        clients: int,
        work: Callable[[int], Value],
        take: Callable[[int, Value], None],
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
        work: Callable[[int], Value],
        take: Callable[[int, Value], None],
        on_failure: Callable[[], None],
    ) -> None:
        self.failures: list[BaseException] = []
        self._work, self._take, self._on_failure = work, take, on_failure
        self._window = window
        self._clients = iter(range(clients))  # shared, because `next` is atomic
        self._changed = threading.Condition()
        self._waiting: dict[int, Value] = {}
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

    def each(self, count: int, work: Callable[[int], Value], take: Callable[[int, Value], None]) -> None:
        """Calls `take(position, work(position))` for `count` positions: in parallel, but taken in order.

        Raises:
            BaseException: The first failure in time. The rest of the call is stopped.
        """
        self._pool.run(count, work, take, self.cancellation.cancel)

    def elsewhere(self, work: Value, given: Mapping[str, Value]) -> Callable[[int], Value] | None:
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
