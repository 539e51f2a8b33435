"""Tests that consecutive steps of a client are one TensorFlow call with the bits of separate calls."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.eager import context as eager_context

import fedplug
from fedplug.errors import ComputationError
from fedplug.tff.runtime.graphs.joined_calls import JoinedFunction, NotJoinable, needs_values
from fedplug.tff.runtime.graphs.registered_function import Cancellation
from fedplug.tff.runtime.graphs.tensorflow_graphs import GraphFunction, load
from fedplug.tff.runtime.inprocess.passes import JoinedSteps

VECTOR = tff.TensorType(np.float32, [3])
CLIENTS = tff.FederatedType(VECTOR, tff.CLIENTS)
SERVER = tff.FederatedType(VECTOR, tff.SERVER)
VALUES = [np.array([0.1, 0.7, -3], np.float32) * (i + 1) for i in range(5)]

OUTSIDE = tf.constant([1.0, 2.0])


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    with fedplug.use_runtime("inprocess"):
        yield


@tff.tensorflow.computation(VECTOR, VECTOR)
def difference(x, y):
    return x - tf.exp(y)


@tff.tensorflow.computation(VECTOR)
def sines(x):
    return tf.sin(x), tf.reduce_sum(x)


@tff.tensorflow.computation(VECTOR)
def norm(x):
    return tf.norm(x)


def a_round() -> tff.Computation:
    """Two consecutive maps whose results are all used, an aggregation and two sums."""

    @tff.federated_computation(SERVER, CLIENTS)
    def made(model, data):
        both = tff.federated_zip((tff.federated_broadcast(model), data))
        changed = tff.federated_map(difference, both)
        of_each = tff.federated_map(sines, changed)
        return (
            tff.federated_mean(of_each[0]),
            tff.federated_sum(of_each[1]),
            tff.federated_sum(tff.federated_map(norm, changed)),
            of_each[1],
        )

    return made


def run_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JoinedSteps, "run", lambda self, steps, values, invocation: steps(values))


def bits(value: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(value)]


def calls_of(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[Any]:
    made, counting, call = [], threading.Lock(), kind.__call__

    def counted(self: Any, *args: Any, **options: Any) -> list[tf.Tensor]:
        with counting:
            made.append(self)
        return call(self, *args, **options)

    monkeypatch.setattr(kind, "__call__", counted)
    return made


def test_each_later_client_takes_one_call_and_one_addition(monkeypatch):
    compute = a_round()
    compute(VALUES[0], VALUES)
    apart, joined = calls_of(monkeypatch, GraphFunction), calls_of(monkeypatch, JoinedFunction)
    compute(VALUES[0], VALUES)
    of_server_and_first_addition = len(apart)
    assert len(joined) == len(VALUES) + len(VALUES) - 1
    apart.clear()
    compute(VALUES[0], VALUES * 3)
    assert len(apart) == of_server_and_first_addition


def test_the_bits_are_those_of_one_call_after_the_other(monkeypatch):
    joined = [bits(a_round()(VALUES[1], VALUES)) for _ in range(2)]
    run_apart(monkeypatch)
    assert joined == [bits(a_round()(VALUES[1], VALUES))] * 2


def test_functions_that_read_values_run_eagerly():
    @tff.tensorflow.computation(np.int32)
    def doubled(x):
        return 2 * x

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def bounded(numbers):
        return tff.federated_secure_sum(tff.federated_map(doubled, numbers), 10)

    assert bounded([1, 2, 5]) == 16

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def both(numbers):
        return tff.federated_sum(numbers), tff.federated_secure_sum(numbers, 10)

    with pytest.raises(ComputationError, match=r"client 2 of 3 .* failed in federated_secure_sum of 'both'"):
        both([1, 2, 11])
    with pytest.raises(ComputationError, match=r"client 1 of 3 .* failed in federated_secure_sum .* larger"):
        bounded([1, 6, 5])


def test_a_computation_takes_its_joined_functions_with_it():
    def names() -> set[str]:
        return {name for name in eager_context.context().list_function_names() if "fedplug" in name}

    before = names()
    compute = a_round()
    compute(VALUES[0], VALUES)
    assert names() - before
    del compute
    gc.collect()
    assert all(name.startswith("__wrapped__") for name in names() - before)  # the next call releases kernels


def function_of(computation: Any) -> GraphFunction:
    proto = tff.framework.serialize_computation(computation)
    return load(
        proto, [tuple(part.shape) for part in tff.structure.flatten(computation.type_signature.result)]
    )


def test_a_joined_function_takes_only_used_arguments_and_returns_arguments():
    of_x = function_of(norm)
    cancel = Cancellation()
    function = JoinedFunction(
        lambda tensors: [of_x([tensors[0]], cancel)[0] + of_x([2 * tensors[0]], cancel)[0], tensors[1]],
        [tf.float32, tf.int32, tf.string],
    )
    three, five = function([tf.constant([0.0, 0, 1]), tf.constant(5), tf.constant("unused")], cancel)
    assert (three.numpy(), five.numpy()) == (3, 5)


def never() -> None:
    raise AssertionError


@pytest.mark.parametrize(
    "make",
    [
        lambda tensors: [tensors[0] + tf.constant(1.0), needs_values() or never()],
        lambda tensors: [tensors[0] + OUTSIDE],
        lambda tensors: [OUTSIDE],
        lambda tensors: function_of(norm)([tensors[0]], Cancellation()),
    ],
    ids=["looks at values", "adds what is no argument", "returns what is no argument", "calls once"],
)
def test_stages_are_joined_only_if_possible_and_useful(
    make: Callable[[list[tf.Tensor]], list[tf.Tensor]],
):
    with pytest.raises(NotJoinable):
        JoinedFunction(make, [tf.float32])
