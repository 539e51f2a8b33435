"""TFF execution contexts that run computations in this process.

The asynchronous context compiles a computation once in a process, and refuses to work after a fork.
The synchronous context runs it on an event loop in a thread of its own. It thus works inside a running loop
(notebooks), and an interrupt ends a round at once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import tensorflow_federated as tff

from fedplug.tff.runtime.base import Runtime
from fedplug.tff.runtime.graphs.devices import RuntimeDevice
from fedplug.tff.runtime.inprocess.event_loop import LoopThread
from fedplug.tff.runtime.inprocess.executor import InProcessExecutorFactory, Program, compile_program
from fedplug.tff.runtime.inprocess.invocation import ClientPool
from fedplug.tff.runtime.inprocess.values import Value, to_arrays

__all__ = ["create_async_execution_context", "create_sync_execution_context"]

# A running round uses one thread, which mostly waits. Further rounds queue.
_MAX_ROUNDS = 64

# The compiled computations of all contexts, by identity and device. Computations have no equality, and TFF's
# cache hashes a whole proto in every round.
_programs: dict[tuple[int, str], Program] = {}
_compiling = threading.Lock()


def create_async_execution_context(
    *, max_concurrent_clients: int | None = None, default_num_clients: int = 0, device: str = "CPU"
) -> InProcessAsyncContext:
    """Returns a context that runs computations in this process as coroutines.

    Args:
        max_concurrent_clients: Number of clients that run at a time. None: the number of processors.
        default_num_clients: Number of clients of a computation whose arguments do not determine it.
        device: The device of all tensors and operations, whatever TensorFlow sees: ``"CPU"``, ``"GPU"``, or
            for instance ``"GPU:1"``. Data sets are read on the CPU.

    Raises:
        ConfigError: TensorFlow has no such device.
    """
    where = RuntimeDevice(device)
    rounds = create_round_threads(where)
    pool = ClientPool(max_concurrent_clients, where)
    factory = InProcessExecutorFactory(pool, rounds, default_num_clients, where)
    return InProcessAsyncContext(factory, rounds)


def create_sync_execution_context(
    *, max_concurrent_clients: int | None = None, default_num_clients: int = 0, device: str = "CPU"
) -> InProcessSyncContext:
    """Returns a context that runs computations in this process, with its TensorFlow. Custom ops work.

    Several threads may use it at a time, also inside a running event loop.

    Args:
        max_concurrent_clients: Number of clients that run at a time. None: the number of processors.
        default_num_clients: Number of clients of a computation whose arguments do not determine it.
        device: The device of all tensors and operations, as for `create_async_execution_context`.

    Raises:
        ConfigError: TensorFlow has no such device.
    """
    return InProcessSyncContext(
        create_async_execution_context(
            max_concurrent_clients=max_concurrent_clients,
            default_num_clients=default_num_clients,
            device=device,
        )
    )


def create_round_threads(device: RuntimeDevice) -> ThreadPoolExecutor:
    """Returns the threads in which a context runs rounds, on a device."""
    return ThreadPoolExecutor(_MAX_ROUNDS, thread_name_prefix="fedplug-round", initializer=device.enter)


class InProcessAsyncContext(tff.framework.AsyncExecutionContext):
    """TFF's execution context on our executor.

    Args:
        factory: The factory of executors.
        rounds: Threads in which computations are compiled.
    """

    runs_custom_ops = True

    def __init__(self, factory: InProcessExecutorFactory, rounds: ThreadPoolExecutor) -> None:
        self._rounds = rounds
        self._device = factory.device.name
        self._process = os.getpid()
        super().__init__(factory, transform_args=to_arrays, transform_result=to_arrays)

    async def invoke(self, comp: tff.Computation, arg: Value) -> Value:
        """Runs a computation.

        Raises:
            ComputationError: A part of it failed. The message names it and, if there is one, the client.
            TypeError: The argument does not fit. The text is TFF's.
        """
        self.refuse_after_fork()
        program = _programs.get((id(comp), self._device))
        if program is None:
            # Not on the event loop: tracing and compiling take up to seconds.
            program = await asyncio.get_running_loop().run_in_executor(self._rounds, self._compile, comp)
        return await super().invoke(program, arg)

    def refuse_after_fork(self) -> None:
        """Raises an error in a forked child, where a call would wait for threads that do not exist."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "this execution context was made before a fork(), which TensorFlow's threads do not survive; "
                "start processes with the 'spawn' method and make a context in each"
            )

    def _compile(self, comp: tff.Computation) -> Program:
        key = id(comp), self._device
        with _compiling:
            program = _programs.get(key)
            if program is None:
                _programs[key] = program = compile_program(comp)
                weakref.finalize(comp, _programs.pop, key, None).atexit = False
            return program


class InProcessSyncContext(Runtime):
    """A synchronous context that runs an asynchronous one on an event loop of its own."""

    runs_custom_ops = True

    def __init__(self, context: InProcessAsyncContext) -> None:
        self._context = context
        self._loop = LoopThread()

    def invoke(self, comp: tff.Computation, arg: Value) -> Value:
        """Runs a computation. Raises the errors of the asynchronous context."""
        self._context.refuse_after_fork()
        return self._loop.run(self._context.invoke(comp, arg))

    def close(self) -> None:
        """Ends the context's thread."""
        self._loop.close()
