"""Tests that a loop in place of a dataset reduction gives exactly the same result."""

from __future__ import annotations

import collections
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.graphs import tensorflow_graphs
from fedplug.tff.runtime.graphs.inline_calls import can_call_inline
from fedplug.tff.runtime.graphs.private_calls import make_private
from fedplug.tff.runtime.tff_internals import computation_pb2

F32, I32 = np.float32, np.int32
ELEMENT = collections.OrderedDict(y=tff.TensorType(F32, [None]), x=I32)


def data(sizes):
    return tf.data.Dataset.from_tensor_slices(tf.constant(sizes, tf.int32)).map(
        lambda n: collections.OrderedDict(y=tf.cast(tf.range(n), tf.float32), x=n)
    )


@tff.tensorflow.computation(tff.SequenceType(ELEMENT), F32)
def mixed_state(sequence, factor):
    """A state of several parts, one of which grows, with a captured argument and a captured variable."""
    weight = tf.Variable(3.0)

    def step(state, element):
        total, seen, count = state
        total += factor * weight * tf.reduce_sum(element["y"])
        return total, tf.concat([seen, [element["x"]]], 0), count + 1

    before = sequence.take(1).reduce(0, lambda n, _: n + 1)
    with tf.control_dependencies([before]):
        start = (0.0, tf.zeros([0], tf.int32), 0)
        return sequence.reduce(start, step), before


@pytest.fixture(params=["inline", "by name"], autouse=True)
def _calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs the tests with each way to call functions, which determines the loop that replaces a reduction."""
    if request.param == "by name":
        monkeypatch.setattr(tensorflow_graphs, "can_call_inline", lambda: False)
    elif not can_call_inline():
        pytest.skip("there is a GPU, or no op library")
    tensorflow_graphs._loaded.clear()
    yield
    tensorflow_graphs._loaded.clear()


def ops_of(computation) -> list[str]:
    proto = tff.framework.ConcreteComputation.get_proto(computation)
    graph = tf.compat.v1.GraphDef()
    proto.tensorflow.graph_def.Unpack(graph)
    fetch = next(_tensors(proto.tensorflow.result))
    inline = tensorflow_graphs.can_call_inline()
    private = make_private(graph, [fetch], proto.tensorflow.initialize_op, "p_", inline=inline)
    return [node.op for node in private.graph_def.node]


def _tensors(binding: computation_pb2.TensorFlow.Binding):
    if binding.HasField("tensor"):
        yield binding.tensor.tensor_name
    for element in binding.struct.element:
        yield from _tensors(element)


def test_reductions_become_loops():
    inline = tensorflow_graphs.can_call_inline()
    ops = ops_of(mixed_state)
    assert ops.count("Fedplug>ReduceInline" if inline else "While") == 2
    assert "ReduceDataset" not in ops


@pytest.mark.parametrize("sizes", [[], [3, 0, 2]])
def test_the_loop_equals_the_stock_worker(same_on_both, sizes):
    (total, seen, count), before = same_on_both(lambda: mixed_state(data(sizes), 0.3))
    assert seen.tolist() == sizes
    assert (count, before) == (len(sizes), min(len(sizes), 1))
    assert (total == 0) == (sum(sizes) <= 1)  # a client sums 0 to n - 1 for every size n


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
        options.experimental_optimization.inject_prefetch = False  # tf.data would prefetch by itself
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


def test_a_step_may_branch_loop_and_reduce_by_itself(same_on_both):
    @tff.tensorflow.computation(tff.SequenceType(I32))
    def branching(sequence):
        def step(state, x):
            halved = tf.while_loop(lambda n: n % 2 == 0, lambda n: [n // 2], [x + 8])[0]
            inner = tf.data.Dataset.range(tf.cast(x, tf.int64)).reduce(tf.int64.max, tf.minimum)
            return state * 3 + tf.cond(halved > 3, lambda: halved, lambda: -x) + tf.cast(inner % 7, tf.int32)

        return sequence.reduce(1, step)

    assert same_on_both(lambda: branching([4, 5, 8, 2, 1])) != 0


def test_the_initial_values_of_a_loop_are_not_overwritten(on_inprocess):
    @tff.tensorflow.computation(tff.SequenceType(F32), tff.TensorType(F32, [1000]))
    def sums(sequence, start):
        total = sequence.reduce(start, lambda state, x: state + x * start)
        return total, start, sequence.reduce(start, lambda state, x: state - x)

    start = np.arange(1000, dtype=F32)
    total, same, other = sums([1.0, 2.0], start)
    np.testing.assert_array_equal(same, start)
    np.testing.assert_array_equal(total, 4 * start)
    np.testing.assert_array_equal(other, start - 3)
