"""The executor of the in-process context: TFF asks it to ingest values, to call, and to return results.

Plans run outside of TFF's event loop, so that several computations run at a time and can be cancelled.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Executor as ThreadExecutor
from dataclasses import dataclass

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ComputationError
from fedplug.tff.runtime.compiler import compile_block
from fedplug.tff.runtime.graphs.devices import RuntimeDevice
from fedplug.tff.runtime.graphs.tensorflow_graphs import naming_missing_ops
from fedplug.tff.runtime.inprocess.invocation import ClientPool, Invocation, computation_error
from fedplug.tff.runtime.inprocess.planner import block_name, plan
from fedplug.tff.runtime.inprocess.values import Value, ingest, materialize
from fedplug.tff.runtime.tff_internals import Executor, ExecutorValue, computation_pb2

__all__ = ["InProcessExecutorFactory", "Program", "compile_program"]


@dataclass(frozen=True)
class Program:
    """A compiled computation.

    Attributes:
        type_signature: The type of the original computation, including Python containers.
        name: Name of the computation in errors.
        make: A function that returns the callable for one round.
    """

    type_signature: tff.FunctionType
    name: str
    make: Callable[[dict[str, Value], Invocation], Value]


def compile_program(computation: tff.framework.ConcreteComputation) -> Program:
    """Compiles a computation with TFF's compiler and plans how to run it.

    The compiler returns a computation unchanged if it cannot normalize it. Plans run any form.

    Raises:
        LoweringError: A part of the computation cannot run in this process.
        OpLibraryError: It has an op that no library loaded in this process provides.
    """
    block = computation.to_building_block()
    with naming_missing_ops():
        compiled = compile_block(block, inline_functions=True)
    return Program(
        type_signature=computation.type_signature,
        name=block_name(block),
        make=plan(compiled.to_building_block()).run,
    )


@dataclass(frozen=True)
class InProcessExecutorFactory(tff.framework.ExecutorFactory):
    """A factory of executors, which need no clean-up.

    Attributes:
        pool: The pool that runs the clients of a round.
        rounds: Threads in which rounds run.
        default_num_clients: Number of clients if the arguments do not determine it.
        device: The device on which values are converted.
    """

    pool: ClientPool
    rounds: ThreadExecutor
    default_num_clients: int
    device: RuntimeDevice

    def create_executor(self, cardinalities: tff.framework.CardinalitiesType) -> Executor:
        """Returns an executor for this many clients."""
        return _InProcessExecutor(self, cardinalities.get(tff.CLIENTS, self.default_num_clients))

    def clean_up_executor(self, cardinalities: tff.framework.CardinalitiesType) -> None:
        """Does nothing, because a failed call leaves nothing behind."""


class _Value(ExecutorValue):
    def __init__(
        self, value: Value, type_signature: tff.Type, num_clients: int, device: RuntimeDevice
    ) -> None:
        self._value = value
        self._type_signature = type_signature
        self._num_clients = num_clients
        self._device = device

    @property
    def type_signature(self) -> tff.Type:
        return self._type_signature

    @property
    def reference(self) -> Value:
        return self._value

    async def compute(self) -> Value:
        with self._device.scope():
            return materialize(self._value, self._type_signature, self._num_clients)


class _InProcessExecutor(Executor):
    def __init__(self, factory: InProcessExecutorFactory, num_clients: int) -> None:
        self._factory = factory
        self._num_clients = num_clients

    def close(self) -> None:
        pass

    async def create_value(self, value: Value, type_spec: tff.Type = None) -> _Value:
        if isinstance(value, computation_pb2.Computation):
            value = tff.framework.deserialize_computation(value)
        if isinstance(value, tff.framework.ConcreteComputation):
            with self._factory.device.scope():
                value = compile_program(value)
        if isinstance(value, Program):
            return self._embed(value, value.type_signature)
        with self._factory.device.scope():
            return self._embed(ingest(value, type_spec), type_spec)

    async def create_call(self, comp: ExecutorValue, arg: ExecutorValue | None = None) -> _Value:
        program = comp.reference
        argument = None if arg is None else arg.reference
        invocation = Invocation(program.name, self._num_clients, self._factory.pool)
        work = asyncio.get_running_loop().run_in_executor(
            self._factory.rounds, functools.partial(_run, program, argument, invocation)
        )
        try:
            value = await asyncio.shield(work)
        except asyncio.CancelledError:
            invocation.cancellation.cancel()
            await asyncio.wait([work])
            raise
        return self._embed(value, program.type_signature.result)

    async def create_struct(self, elements: Value) -> _Value:
        named = tff.structure.to_elements(tff.structure.from_container(elements))
        types = [(name, v.type_signature) if name else v.type_signature for name, v in named]
        return self._embed(tuple(v.reference for _, v in named), tff.StructType(types))

    async def create_selection(self, source: ExecutorValue, index: int) -> _Value:
        return self._embed(source.reference[index], source.type_signature[index])

    def _embed(self, value: Value, type_signature: tff.Type) -> _Value:
        return _Value(value, type_signature, self._num_clients, self._factory.device)


def _run(program: Program, argument: Value, invocation: Invocation) -> Value:
    """Runs one call in the current thread."""
    try:
        function = program.make({}, invocation)
        if program.type_signature.parameter is not None:
            return function(_as_called(argument), invocation)
        return function(None, invocation) if callable(function) else function
    except ComputationError:
        raise
    except tf.errors.OpError as error:
        message = f"{program.name} failed: {type(error).__name__}: {error.message}"
        raise computation_error(message, error) from error


def _as_called(argument: Value) -> Value:
    """Converts programs in an argument into callables."""
    if isinstance(argument, Program):
        return lambda value, invocation: argument.make({}, invocation)(value, invocation)
    if type(argument) is tuple:
        return tuple(_as_called(part) for part in argument)
    return argument
