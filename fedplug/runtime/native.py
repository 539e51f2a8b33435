"""TFF's stock worker as a runtime: refuses what it cannot run, and supervises the worker.

Must not know the in-process runtime.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import tensorflow_federated as tff

from fedplug.errors import LoweringError, WorkerError
from fedplug.runtime.tff_internals import transform_args, transform_result
from fedplug.runtime.worker import Worker

__all__ = ["NativeContext", "create_native_execution_context", "custom_ops_of"]

_MAX_RESTARTS = 3


def custom_ops_of(computation: tff.framework.ConcreteComputation) -> list[str]:
    """Returns the names of fedplug's custom ops that a computation's graphs hold, sorted."""
    # Graphs lie in the proto as plain bytes, however deep; an op's name is followed by a byte no name holds.
    proto = tff.framework.ConcreteComputation.get_proto(computation).SerializeToString()
    return sorted({name.decode() for name in re.findall(rb"Fedplug>\w+", proto)})


def create_native_execution_context(
    *,
    max_concurrent_clients: int | None = None,
    default_num_clients: int = 0,
    start_timeout: float = 60.0,
) -> NativeContext:
    """Returns a context on TFF's stock worker, which starts at the first computation.

    Args:
        max_concurrent_clients: How many calls of one computation run at a time; no limit, if None.
        default_num_clients: The number of clients of a computation whose arguments do not tell.
        start_timeout: Seconds until the worker must answer.
    """
    return NativeContext(max_concurrent_clients, default_num_clients, start_timeout)


class NativeContext(tff.framework.SyncExecutionContext):
    """TFF's context on a worker of its own; custom ops do not run there."""

    runs_custom_ops = False

    def __init__(
        self, max_concurrent_clients: int | None, default_num_clients: int, start_timeout: float
    ) -> None:
        self._workers = _Workers(max_concurrent_clients, start_timeout)

        def executor(cardinalities: tff.framework.CardinalitiesType) -> Any:
            cardinalities.setdefault(tff.CLIENTS, default_num_clients)
            remote = tff.framework.RemoteExecutor(self._workers.running().stub)
            remote.set_cardinalities(cardinalities)
            return remote

        super().__init__(
            tff.framework.ResourceManagingExecutorFactory(executor),
            _compile,
            transform_args=transform_args,
            transform_result=transform_result,
        )

    @property
    def worker(self) -> Worker | None:
        """The worker, if one was started."""
        return self._workers.current

    def close(self) -> None:
        """Ends the worker."""
        self._workers.close()


class _Workers:
    """The worker of a context: started when needed, replaced when it died."""

    def __init__(self, max_concurrent_calls: int | None, start_timeout: float) -> None:
        self._options = (max_concurrent_calls, start_timeout)
        self._starting = threading.Lock()
        self._starts = 0
        self.current: Worker | None = None

    def running(self) -> Worker:
        with self._starting:
            if self.current is None or not self.current.alive:
                if self._starts > _MAX_RESTARTS:
                    raise WorkerError(f"TFF's worker died {self._starts} times; it is not started again")
                self._starts += 1
                self.current = Worker(*self._options)
            return self.current

    def close(self) -> None:
        if self.current is not None:
            self.current.stop()


def _compile(computation: Any) -> Any:
    if ops := custom_ops_of(computation):
        raise LoweringError(
            f"the computation holds {', '.join(ops)}, and TFF's stock worker cannot load custom ops; "
            'build it with lowering="reference", or run it with fedplug.use_runtime("inprocess")'
        )
    return tff.backends.native.desugar_and_transform_to_native(computation)
