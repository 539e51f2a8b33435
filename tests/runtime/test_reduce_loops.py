"""A data set reduction that was turned into a loop gives exactly what the reduction gives."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ComputationError
from fedplug.runtime.graphs.private_calls import make_private
from fedplug.runtime.graphs.reduce_loops import loop_output
from fedplug.runtime.tff_internals import computation_pb2

F32, I32 = np.float32, np.int32
ELEMENT = collections.OrderedDict(y=tff.TensorType(F32, [None]), x=I32)


def data(sizes):
    return tf.data.Dataset.from_tensor_slices(sizes).map(
        lambda n: collections.OrderedDict(y=tf.cast(tf.range(n), tf.float32), x=n)
    )


@tff.tensorflow.computation(tff.SequenceType(ELEMENT), F32)
def mixed_state(sequence, factor):
    """State of several parts, one of which grows; a captured argument and a captured variable."""
    weight = tf.Variable(3.0)

    def step(state, element):
        total, seen, count = state
        total += factor * weight * tf.reduce_sum(element["y"])
        return total, tf.concat([seen, [element["x"]]], 0), count + 1

    before = sequence.take(1).reduce(0, lambda n, _: n + 1)
    with tf.control_dependencies([before]):
        start = (0.0, tf.zeros([0], tf.int32), 0)
        return sequence.reduce(start, step), before


def ops_of(computation) -> list[str]:
    proto = tff.framework.ConcreteComputation.get_proto(computation)
    graph = tf.compat.v1.GraphDef()
    proto.tensorflow.graph_def.Unpack(graph)
    fetch = next(_tensors(proto.tensorflow.result))
    return [
        node.op for node in make_private(graph, [fetch], proto.tensorflow.initialize_op, "p_").graph_def.node
    ]


def _tensors(binding: computation_pb2.TensorFlow.Binding):
    if binding.HasField("tensor"):
        yield binding.tensor.tensor_name
    for element in binding.struct.element:
        yield from _tensors(element)


def test_reductions_become_loops():
    assert "While" in ops_of(mixed_state)
    assert "ReduceDataset" not in ops_of(mixed_state)


@pytest.mark.parametrize("sizes", [[1], [3, 0, 2], list(range(9))])
def test_the_loop_gives_what_the_stock_worker_gives(same_on_both, sizes):
    (_, seen, count), before = same_on_both(lambda: mixed_state(data(sizes), 0.3))
    assert seen.tolist() == sizes
    assert (count, before) == (len(sizes), 1)


def test_the_loop_of_an_empty_data_set_gives_the_initial_state(same_on_both):
    (total, seen, count), before = same_on_both(lambda: mixed_state(data([1]).take(0), 0.3))
    assert (total, seen.tolist(), count, before) == (0.0, [], 0, 0)


def test_the_next_element_is_fetched_after_the_function_returned(on_inprocess):
    events: list[str] = []

    def note(event):
        def record(value):
            events.append(f"{event} {value}")
            return value

        return lambda value: tf.ensure_shape(tf.numpy_function(record, [value], tf.int32, stateful=True), [])

    @tff.tensorflow.computation
    def total():
        sequence = tf.data.Dataset.range(3, output_type=tf.int32).map(note("fetch"))
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # tf.data would fetch ahead by itself
        sequence = sequence.with_options(options)
        return sequence.reduce(0, lambda state, x: state + note("reduce")(x))

    assert total() == 3
    assert events == [f"{event} {n}" for n in range(3) for event in ("fetch", "reduce")]


def test_seeded_random_numbers_start_again_in_every_run_as_in_the_stock_worker(same_on_both):
    @tff.tensorflow.computation(tff.SequenceType(I32))
    def noise(sequence):
        return sequence.reduce(0.0, lambda state, _: state + tf.random.normal([], seed=7))

    assert "ReduceDataset" in ops_of(noise)
    first, second = same_on_both(lambda: [noise([1, 2, 3]), noise([1, 2, 3])])
    assert first == second


def test_a_failing_step_says_so(on_inprocess):
    @tff.tensorflow.computation(tff.SequenceType(I32))
    def checked(sequence):
        def step(state, x):
            with tf.control_dependencies([tf.debugging.assert_less(x, 5, message="too big")]):
                return state + x

        return sequence.reduce(0, step)

    with pytest.raises(ComputationError, match="too big"):
        checked([1, 7])
    assert checked([1, 2]) == 3


@pytest.mark.parametrize(
    ("source", "replacement"),
    [("r", "loop:2"), ("r:1", "loop:3"), ("^r", "^loop"), ("other:1", "other:1"), ("^other", "^other")],
)
def test_inputs_from_a_replaced_node_come_from_its_loop(source, replacement):
    assert loop_output(source, {"r": "loop"}) == replacement
