"""`fedplug.ops.scatter_decode_update` leaves the result of `scatter_decode_add` in its variable."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops


@pytest.fixture
def payloads(as_dtype):
    values, weights = as_dtype(np.array([1.5, -2.0, 0.25, 8.0]), np.array([0.5, 3.0]))
    return values, [0, 3, 1, 3], [0, 2, 4], weights


def test_the_variable_equals_the_result_of_the_functional_op(dtype, lowering, payloads):
    before = tf.cast(tf.reshape(tf.range(6), [2, 3]), dtype)
    accumulator = tf.Variable(before)
    expected = ops.scatter_decode_add(before, *payloads)
    assert ops.scatter_decode_update(accumulator, *payloads, lowering=lowering) is None
    assert accumulator.numpy().tobytes() == expected.numpy().tobytes()


def test_earlier_reads_do_not_change(lowering):
    accumulator = tf.Variable([1.0, 2.0])
    read = accumulator.read_value()
    ops.scatter_decode_update(accumulator, [4.0], [1], [0, 1], lowering=lowering)
    assert (read.numpy().tolist(), accumulator.numpy().tolist()) == ([1, 2], [1, 6])


def test_the_op_adds_in_the_buffer_of_the_variable():
    accumulator = tf.Variable(tf.zeros(1000))

    def address():
        return np.asarray(memoryview(accumulator.read_value())).ctypes.data

    before = address()
    ops.scatter_decode_update(accumulator, [4.0], [1], [0, 1], lowering="fused")
    assert address() == before


def test_a_payload_that_is_refused_changes_nothing(lowering):
    accumulator = tf.Variable([1.0, 2.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="payload"):
        ops.scatter_decode_update(accumulator, [4.0, 4.0], [1, 2], [0, 1, 2], lowering=lowering)
    assert accumulator.numpy().tolist() == [1, 2]


def test_a_function_adds_and_reads_in_the_order_it_is_written(lowering):
    accumulator = tf.Variable(tf.zeros(3))

    @tf.function(autograph=False)
    def step(values):
        ops.scatter_decode_update(accumulator, values, [0, 2], [0, 2], lowering=lowering)
        between = accumulator.read_value()
        ops.scatter_decode_update(accumulator, values, [1, 2], [0, 2], lowering=lowering)
        return between

    assert step(tf.ones(2)).numpy().tolist() == [1, 0, 1]
    assert accumulator.numpy().tolist() == [1, 1, 2]


def test_other_objects_and_uninitialized_variables_are_refused(lowering):
    with pytest.raises(TypeError, match=r"accumulator must be a tf\.Variable"):
        ops.scatter_decode_update(tf.zeros(2), [4.0], [1], [0, 1], lowering=lowering)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        accumulator = tf.compat.v1.get_variable("sum", initializer=tf.zeros(3), use_resource=True)
        added = ops.scatter_decode_update(accumulator, [4.0], [1], [0, 1], lowering=lowering)
        with pytest.raises(tf.errors.FailedPreconditionError, match="sum"):
            session.run(added)
        session.run(accumulator.initializer)
        session.run(added)
        assert session.run(accumulator).tolist() == [0, 4, 0]
