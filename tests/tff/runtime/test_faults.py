"""Tests that a fault in a round names its place, keeps TensorFlow's class, and leaves the runtime usable."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import os
import pickle
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
    program = on_clients(endless())  # the callbacks of tracing would swallow the exception
    ctrl_c = threading.Timer(1, os.kill, [os.getpid(), signal.SIGINT])
    ctrl_c.start()
    with pytest.raises(KeyboardInterrupt):
        program([1] * 10)
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


I32 = np.int32
OF_CLIENTS = tff.FederatedType(I32, tff.CLIENTS)


def checked(x):
    with tf.control_dependencies([tf.debugging.assert_positive(x, "not positive")]):
        return tf.identity(x)


check = tff.tensorflow.computation(checked, I32)
add = tff.tensorflow.computation(lambda a, b: a + b, I32, I32)
add_checked = tff.tensorflow.computation(lambda a, b: checked(a + b), I32, I32)
same = tff.tensorflow.computation(lambda x: x, I32)
zero = tff.tensorflow.computation(lambda: tf.constant(0))
fails = tff.tensorflow.computation(lambda: checked(tf.cast(tf.random.uniform([], -9, -2), tf.int32)))


def of_clients(body):
    return tff.federated_computation(body, OF_CLIENTS)


# The failing computation, its argument, and the position of the client that fails.
FAILURES = {
    "a function": (check, -1, None),
    "federated_map": (of_clients(lambda v: tff.federated_map(check, v)), [1, -1], 1),
    "zero": (of_clients(lambda v: tff.federated_aggregate(v, fails(), add, add, same)), [1, 1], None),
    "accumulate": (
        of_clients(lambda v: tff.federated_aggregate(v, zero(), add_checked, add, same)),
        [1, -9],
        1,
    ),
    "report": (of_clients(lambda v: tff.federated_aggregate(v, zero(), add, add, check)), [-1, -1], None),
    "federated_secure_sum": (of_clients(lambda v: tff.federated_secure_sum(v, 9)), [1, 20], 1),
}


# The intrinsic that fails, where it has another name.
INTRINSICS = {"accumulate": "federated_aggregate"}


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_of_tensorflow_keeps_its_type_in_every_intrinsic(on_inprocess, name):
    program, argument, client = FAILURES[name]
    with pytest.raises(ComputationError) as caught:
        program(argument)
    error = caught.value
    assert isinstance(error, tf.errors.InvalidArgumentError)
    assert error.client == client
    assert isinstance(error.__cause__, tf.errors.InvalidArgumentError)
    if name == "a function":
        assert "(int32 -> int32) failed: InvalidArgumentError: " in str(error)
    if client is not None:
        intrinsic = INTRINSICS.get(name, name)
        assert f"client {client} of {len(argument)} (counted from 0) failed in {intrinsic}" in str(error)
    assert error.error_code == tf.errors.INVALID_ARGUMENT
    assert str(error) == error.message
    assert type(error).__name__ == "InvalidArgumentError"
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert (str(twin), twin.client, twin.error_code) == (str(error), error.client, error.error_code)
