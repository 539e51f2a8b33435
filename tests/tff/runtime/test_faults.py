"""Tests that a fault in a round names its place, stops the round, and leaves the runtime usable."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ComputationError, OpLibraryError
from fedplug.tff.runtime.inprocess.event_loop import LoopThread
from fedplug.tff.runtime.native.context import create_native_execution_context
from fedplug.tff.runtime.tff_internals import computation_pb2

F32, I32 = np.float32, np.int32


def on_clients(computation):
    """Returns a federated computation named `program` that runs another one on every client."""

    @tff.federated_computation(tff.FederatedType(computation.type_signature.parameter, tff.CLIENTS))
    def program(values):
        return tff.federated_sum(tff.federated_map(computation, values))

    return program


@pytest.fixture
def undisturbed():
    """A program that runs before and after a fault."""
    return on_clients(tff.tensorflow.computation(lambda x: x + 1, I32))


@pytest.fixture(params=["inprocess", "native"])
def each_runtime(request):
    with tff.framework.get_context_stack().install(request.getfixturevalue(request.param)):
        yield request.param


def test_an_op_that_fails_names_client_and_computation(on_inprocess, undisturbed):
    check = tff.tensorflow.computation(lambda x: tf.debugging.check_numerics(x, "not finite"), F32)
    with pytest.raises(
        ComputationError,
        match=r"client 7 of 10 \(counted from 0\) failed in federated_map of 'program': .*not finite.*NaN",
    ) as caught:
        on_clients(check)([1.0] * 7 + [np.nan, 1.0, 2.0])
    assert caught.value.client == 7
    assert isinstance(caught.value.__cause__, tf.errors.InvalidArgumentError)
    assert undisturbed([1, 2]) == 5


def test_nan_alone_is_no_error(each_runtime):
    double = tff.tensorflow.computation(lambda x: x * 2, F32)
    assert np.isnan(on_clients(double)([1.0, np.nan, 2.0]))


def test_a_client_that_runs_out_of_memory_is_named(on_inprocess, undisturbed):
    def allocate(n):
        return np.int32(np.zeros(n * 2**44).size if n else 0)

    large = tff.tensorflow.computation(
        lambda n: tf.ensure_shape(tf.numpy_function(allocate, [n], tf.int32), []), np.int64
    )
    with pytest.raises(
        ComputationError, match=r"client 2 of 4 .*ResourceExhaustedError: .*allocate"
    ) as caught:
        on_clients(large)([0, 0, 1, 0])
    assert caught.value.client == 2
    assert undisturbed([1, 2]) == 5


def test_an_op_that_no_library_provides_is_named_before_anything_runs(on_inprocess, undisturbed):
    proto = computation_pb2.Computation()
    proto.CopyFrom(
        tff.framework.ConcreteComputation.get_proto(
            tff.tensorflow.computation(lambda x: tf.math.asinh(x), F32)
        )
    )
    graph = tf.compat.v1.GraphDef()
    proto.tensorflow.graph_def.Unpack(graph)
    for node in graph.node:
        node.op = "Nowhere>Asinh" if node.op == "Asinh" else node.op
    proto.tensorflow.graph_def.Pack(graph)
    program = on_clients(tff.framework.deserialize_computation(proto))
    with pytest.raises(OpLibraryError, match=r"Nowhere>Asinh.*load the library that provides it"):
        program([1.0])
    assert undisturbed([1, 2]) == 5


def endless():
    return tff.tensorflow.computation(
        lambda x: tf.while_loop(lambda i: i >= 0, lambda i: tf.maximum(i + 1, 0), [x]), I32
    )


def test_ctrl_c_ends_a_round_and_leaves_the_runtime_usable(each_runtime, undisturbed):
    assert undisturbed([1, 2]) == 5
    ctrl_c = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    ctrl_c.start()
    with pytest.raises(KeyboardInterrupt):
        on_clients(endless())([1] * 10)
    assert undisturbed([1, 2]) == 5


def test_an_interrupted_task_is_not_retried_on_another_worker(monkeypatch):
    calls = []

    def run(self, coroutine):
        calls.append(asyncio.run_coroutine_threadsafe(coroutine, self._loop))
        while context.worker is None:
            time.sleep(0.05)
        raise KeyboardInterrupt  # the busy loop has not seen it yet

    context = create_native_execution_context()
    monkeypatch.setattr(LoopThread, "run", run)
    with pytest.raises(KeyboardInterrupt):
        context.invoke(endless(), 1)
    with pytest.raises(concurrent.futures.CancelledError):
        calls[0].result(timeout=600)
    context.close()
