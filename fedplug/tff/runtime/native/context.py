"""Compiles computations for TFF's stock worker, runs them there, and supervises the worker."""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
from collections.abc import Callable

import tensorflow_federated as tff

from fedplug.errors import LoweringError, WorkerError
from fedplug.tff.runtime.base import Runtime
from fedplug.tff.runtime.compiler import compile_block
from fedplug.tff.runtime.inprocess.event_loop import LoopThread
from fedplug.tff.runtime.native.worker import Worker
from fedplug.tff.runtime.tff_internals import transform_args, transform_result
from fedplug.tff.structures import Structure

__all__ = ["NativeContext", "create_native_execution_context", "custom_ops_of"]

_MAX_DEATHS = 3  # in a row, in one computation

_interrupted: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar(
    "interrupted", default=None
)
"""The event of the running computation that is set once its caller has pressed Ctrl-C."""

_NOT_IN_WORKER = (
    "federated_secure_modular_sum",
    "federated_secure_select",
    "federated_secure_sum",
    "federated_secure_sum_bitwidth",
    "sequence_sum",
)


def custom_ops_of(computation: tff.framework.ConcreteComputation) -> list[str]:
    """Returns the names of fedplug's custom ops that a computation's graphs hold, sorted."""
    # Nested graphs are plain bytes in the proto. An op's name has letters and digits only. Node names that
    # begin with it continue with an underscore and a number.
    return sorted({name.decode() for name in re.findall(rb"Fedplug>[A-Za-z0-9]+", _bytes_of(computation))})


def create_native_execution_context(
    *,
    max_concurrent_clients: int | None = None,
    default_num_clients: int = 0,
    start_timeout: float = 60.0,
) -> NativeContext:
    """Returns a context on TFF's stock worker, which starts at the first computation.

    Args:
        max_concurrent_clients: Number of calls of one computation that run at a time. None: no limit.
        default_num_clients: Number of clients of a computation whose arguments do not determine it.
        start_timeout: Seconds in which the worker must answer.
    """
    return NativeContext(_Workers(lambda: Worker(max_concurrent_clients, start_timeout)), default_num_clients)


class NativeContext(Runtime):
    """TFF's context on a worker process of its own. Custom ops do not run there.

    TFF repeats a computation if the connection to the worker is lost. Computations are pure functions, so the
    result is that of an undisturbed run.
    """

    def __init__(self, workers: _Workers, default_num_clients: int) -> None:
        self._workers = workers
        self._loop = LoopThread()

        def executor(cardinalities: tff.framework.CardinalitiesType) -> tff.framework.Executor:
            cardinalities.setdefault(tff.CLIENTS, default_num_clients)
            remote = tff.framework.RemoteExecutor(workers.running().stub)
            remote.set_cardinalities(cardinalities)
            return remote

        self._context = tff.framework.AsyncExecutionContext(
            tff.framework.ResourceManagingExecutorFactory(executor),
            _compile,
            transform_args=transform_args,
            transform_result=transform_result,
        )

    @property
    def worker(self) -> Worker | None:
        """The worker, if one was started."""
        return self._workers.current

    def invoke(self, comp: tff.Computation, arg: Structure) -> Structure:
        """Runs a computation.

        Raises:
            LoweringError: It has custom ops, or intrinsics that the worker does not have.
            WorkerError: The worker does not start, or dies repeatedly.
            TypeError: The argument does not fit. The text is TFF's.
        """
        interrupted = threading.Event()
        before = _interrupted.set(interrupted)
        try:
            result = self._loop.run(self._context.invoke(comp, arg))
        except KeyboardInterrupt:
            interrupted.set()  # before TFF sees a dead worker and repeats the computation on another
            self._workers.stop()  # the loop waits for the worker even if the call ends
            raise
        finally:
            _interrupted.reset(before)
        self._workers.deaths = 0
        return result

    def close(self) -> None:
        """Ends the worker."""
        self._workers.stop()
        self._loop.close()


class _Workers:
    """The worker of a context: started on first use by `start`, and replaced if it died.

    Attributes:
        current: The worker. None if there is none.
        deaths: Number of deaths since a computation succeeded, or failed because of them.
    """

    def __init__(self, start: Callable[[], Worker]) -> None:
        self._start = start
        self._changing = threading.Lock()
        self.deaths = 0
        self.current: Worker | None = None

    def running(self) -> Worker:
        """Returns a worker whose process is alive.

        Raises:
            asyncio.CancelledError: The caller of the running computation was interrupted.
        """
        interrupted = _interrupted.get()
        if interrupted is not None and interrupted.is_set():
            raise asyncio.CancelledError
        with self._changing:
            if self.current is not None and not self.current.alive:
                self.current = None
                self.deaths += 1
            if self.deaths > _MAX_DEATHS:
                self.deaths = 0
                raise WorkerError(
                    f"TFF's worker died {_MAX_DEATHS + 1} times in a row and is not started again; "
                    "perhaps the computation needs more memory than there is"
                )
            if self.current is None:
                self.current = self._start()
            return self.current

    def stop(self) -> None:
        """Ends the worker. The next computation starts a new one."""
        with self._changing:
            if self.current is not None:
                self.current.stop()
                self.current = None


def _compile(computation: tff.Computation) -> tff.framework.ConcreteComputation:
    if ops := custom_ops_of(computation):
        raise LoweringError(
            f"the computation holds {', '.join(ops)}, and TFF's stock worker cannot load custom ops; "
            'build it with lowering="reference", or run it with fedplug.use_runtime("inprocess")'
        )
    # TFF inlines functions for GPUs, which this worker does not use.
    compiled = compile_block(computation.to_building_block(), inline_functions=False)
    if intrinsics := _missing_intrinsics_of(compiled):
        raise LoweringError(
            f"the computation holds {', '.join(intrinsics)}, which TFF's stock worker does not have; run it "
            'with fedplug.use_runtime("inprocess")'
        )
    return compiled


def _missing_intrinsics_of(compiled: tff.framework.ConcreteComputation) -> list[str]:
    # In the proto, a text follows its length, so a longer name that begins like an intrinsic does not match.
    proto = _bytes_of(compiled)
    return [uri for uri in _NOT_IN_WORKER if b"\n%c%b" % (len(uri), uri.encode()) in proto]


def _bytes_of(computation: tff.framework.ConcreteComputation) -> bytes:
    serialized: bytes = tff.framework.ConcreteComputation.get_proto(computation).SerializeToString()
    return serialized
