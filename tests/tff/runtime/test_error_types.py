"""Tests that TensorFlow errors in a computation are `ComputationError` and keep TensorFlow's own class."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ComputationError

I32 = np.int32
OF_CLIENTS = tff.FederatedType(I32, tff.CLIENTS)
OF_SERVER = tff.FederatedType(I32, tff.SERVER)


def checked(x):
    with tf.control_dependencies([tf.debugging.assert_positive(x, "not positive")]):
        return tf.identity(x)


check = tff.tensorflow.computation(checked, I32)
add = tff.tensorflow.computation(lambda a, b: a + b, I32, I32)
add_checked = tff.tensorflow.computation(lambda a, b: checked(a + b), I32, I32)
same = tff.tensorflow.computation(lambda x: x, I32)
zero = tff.tensorflow.computation(lambda: tf.constant(0))
fails = tff.tensorflow.computation(lambda: checked(tf.cast(tf.random.uniform([], -9, -2), tf.int32)))
add_up = tff.tensorflow.computation(lambda s: s.reduce(0, lambda a, b: a + b), tff.SequenceType(I32))
select = tff.tensorflow.computation(lambda value, key: checked(value + key), I32, I32)


@tff.federated_computation(tff.FederatedType(tff.TensorType(I32, [1]), tff.CLIENTS))
def selected(keys):
    value = tff.federated_value(-1, tff.SERVER)
    picked = tff.federated_select(keys, tff.federated_value(9, tff.SERVER), value, select)
    return tff.federated_map(add_up, picked)


def broadcast_and_added(value, values):
    return tff.federated_map(add_checked, (tff.federated_broadcast(value), values))


def of_clients(body):
    return tff.federated_computation(body, OF_CLIENTS)


# The failing computation, its argument, and the position of the client that fails.
FAILURES = {
    "a function": (check, -1, None),
    "federated_map": (of_clients(lambda v: tff.federated_map(check, v)), [1, -1], 1),
    "federated_map at the server": (
        tff.federated_computation(lambda v: tff.federated_map(check, v), OF_SERVER),
        -1,
        None,
    ),
    "federated_broadcast": (
        of_clients(lambda v: broadcast_and_added(tff.federated_sum(v), v)),
        [3, -2],
        1,
    ),
    "zero": (of_clients(lambda v: tff.federated_aggregate(v, fails(), add, add, same)), [1, 1], None),
    "accumulate": (
        of_clients(lambda v: tff.federated_aggregate(v, zero(), add_checked, add, same)),
        [1, -9],
        1,
    ),
    "report": (of_clients(lambda v: tff.federated_aggregate(v, zero(), add, add, check)), [-1, -1], None),
    "federated_eval": (
        of_clients(lambda v: tff.federated_map(add, (v, tff.federated_eval(fails, tff.CLIENTS)))),
        [1],
        0,
    ),
    "federated_eval at the server": (
        tff.federated_computation(lambda: tff.federated_eval(fails, tff.SERVER)),
        None,
        None,
    ),
    "federated_select": (selected, [[5], [0]], 1),
    "federated_secure_sum": (of_clients(lambda v: tff.federated_secure_sum(v, 9)), [1, 20], 1),
    "federated_secure_sum_bitwidth": (
        of_clients(lambda v: tff.federated_secure_sum_bitwidth(v, 3)),
        [1, 20],
        1,
    ),
}


# The intrinsic that fails, where it has another name.
INTRINSICS = {"federated_broadcast": "federated_map", "accumulate": "federated_aggregate"}


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_of_tensorflow_keeps_its_type_in_every_intrinsic(on_inprocess, name):
    program, argument, client = FAILURES[name]
    with pytest.raises(ComputationError) as caught:
        program() if argument is None else program(argument)
    error = caught.value
    assert isinstance(error, tf.errors.InvalidArgumentError)
    assert error.client == client
    if client is not None:
        intrinsic = INTRINSICS.get(name, name)
        assert f"client {client} of {len(argument)} (counted from 0) failed in {intrinsic}" in str(error)
    assert error.error_code == tf.errors.INVALID_ARGUMENT
    assert str(error) == error.message
    assert type(error).__name__ == "InvalidArgumentError"
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert (str(twin), twin.client, twin.error_code) == (str(error), error.client, error.error_code)


@pytest.mark.parametrize(
    "kind",
    [
        tf.errors.InvalidArgumentError,
        tf.errors.OutOfRangeError,
        tf.errors.ResourceExhaustedError,
        tf.errors.UnimplementedError,
    ],
)
def test_every_class_of_tensorflow_is_kept(on_inprocess, kind):
    def fail(x):
        raise kind(None, None, "as asked")

    @tff.tensorflow.computation(I32)
    def run(x):
        return tf.ensure_shape(tf.numpy_function(fail, [x], tf.int32), [])

    with pytest.raises(ComputationError, match="as asked") as caught:
        run(1)
    assert isinstance(caught.value, type(caught.value.__cause__))
    assert isinstance(caught.value, tf.errors.OpError)
