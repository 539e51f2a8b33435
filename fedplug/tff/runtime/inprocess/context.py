"""TFF execution contexts that run computations in this process: what a program sets as its default.

The asynchronous context adds to TFF's own a compiler cache by identity, and a guard against use after a fork.
The synchronous one runs it on an event loop in a thread of its own, so that it works inside a running loop
(notebooks) and an interrupt ends a round at once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow_federated as tff

from fedplug.tff.runtime.base import Runtime
from fedplug.tff.runtime.inprocess.clients import ClientPool
from fedplug.tff.runtime.inprocess.event_loop import LoopThread
from fedplug.tff.runtime.inprocess.executor import Compile, InProcessExecutorFactory, Program, compile_program
from fedplug.tff.runtime.inprocess.values import to_arrays

__all__ = ["create_async_execution_context", "create_sync_execution_context"]

# A round under way holds one thread that mostly waits; more rounds than this at a time queue up.
_MAX_ROUNDS = 64


def create_async_execution_context(
    *, max_concurrent_clients: int | None = None, default_num_clients: int = 0
) -> InProcessAsyncContext:
    """Returns a context whose computations are awaited; they run in this process, with this TensorFlow.

    Args:
        max_concurrent_clients: How many clients run at a time; the processors this process may use, if None.
        default_num_clients: The number of clients of a computation whose arguments do not tell.
    """
    rounds = create_round_threads()
    factory = InProcessExecutorFactory(ClientPool(max_concurrent_clients), rounds, default_num_clients)
    return InProcessAsyncContext(factory, rounds)


def create_sync_execution_context(
    *, max_concurrent_clients: int | None = None, default_num_clients: int = 0
) -> InProcessSyncContext:
    """Returns a context whose computations run in this process, with this TensorFlow: custom ops work.

    It may be used from several threads at a time, and inside a running event loop.

    Args:
        max_concurrent_clients: How many clients run at a time; the processors this process may use, if None.
        default_num_clients: The number of clients of a computation whose arguments do not tell.
    """
    return InProcessSyncContext(
        create_async_execution_context(
            max_concurrent_clients=max_concurrent_clients, default_num_clients=default_num_clients
        )
    )


def create_round_threads() -> ThreadPoolExecutor:
    """Returns the threads that a context runs rounds in."""
    return ThreadPoolExecutor(_MAX_ROUNDS, thread_name_prefix="fedplug-round")


class InProcessAsyncContext(tff.framework.AsyncExecutionContext):
    """TFF's execution context on our executor.

    Args:
        factory: Makes executors.
        rounds: Threads to compile in.
        compile_: Makes the programs that the executors run.
        to_arrays: Makes arrays of the tensors in arguments and results, as TFF's `transform_args` does.
    """

    runs_custom_ops = True

    def __init__(
        self,
        factory: InProcessExecutorFactory,
        rounds: ThreadPoolExecutor,
        compile_: Compile = compile_program,
        to_arrays: Callable[[Any], Any] = to_arrays,
    ) -> None:
        self._rounds = rounds
        self._compile_program = compile_
        self._programs: dict[int, Program] = {}
        self._compiling = threading.Lock()
        self._process = os.getpid()
        super().__init__(factory, transform_args=to_arrays, transform_result=to_arrays)

    async def invoke(self, comp: Any, arg: Any) -> Any:
        """Runs a computation.

        Raises:
            ComputationError: Something in it failed; the message names it and, if there is one, the client.
            TypeError: The argument does not fit; the text is TFF's.
        """
        self.refuse_after_fork()
        program = self._programs.get(id(comp))
        if program is None:
            # Tracing and compiling take up to seconds: not on the event loop.
            program = await asyncio.get_running_loop().run_in_executor(self._rounds, self._compile, comp)
        return await super().invoke(program, arg)

    def refuse_after_fork(self) -> None:
        """Raises an error in a forked child, where a call would wait for threads that are not there."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "this execution context was made before a fork(), which TensorFlow's threads do not survive; "
                "start processes with the 'spawn' method and make a context in each"
            )

    def _compile(self, comp: Any) -> Program:
        # By identity, as TFF's own cache in effect is (computations have no equality), but without hashing
        # the whole proto in every round.
        with self._compiling:
            program = self._programs.get(id(comp))
            if program is None:
                self._programs[id(comp)] = program = self._compile_program(comp)
                weakref.finalize(comp, self._programs.pop, id(comp), None).atexit = False
            return program


class InProcessSyncContext(Runtime):
    """Runs an asynchronous context on a loop of its own."""

    runs_custom_ops = True

    def __init__(self, context: InProcessAsyncContext) -> None:
        self._context = context
        self._loop = LoopThread()

    @property
    def executor_factory(self) -> tff.framework.ExecutorFactory:
        """The executor factory, as TFF's contexts show it."""
        return self._context.executor_factory

    def invoke(self, comp: Any, arg: Any) -> Any:
        """Runs a computation; raises what the asynchronous context raises."""
        self._context.refuse_after_fork()
        return self._loop.run(self._context.invoke(comp, arg))

    def close(self) -> None:
        """Ends the context's thread; it cannot be used any more."""
        self._loop.close()
