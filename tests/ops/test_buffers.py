"""The buffers of outputs: those of arguments that are not used again, or those of earlier outputs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops

SIZES = [1_000, 300_000]  # elements; outputs of the larger size use fedplug's memory pool
# Without oneDNN, as on processors that it has nothing for, TensorFlow's allocator is malloc.
NO_ONEDNN = ("TF_ENABLE_ONEDNN_OPTS", "0")
FROM_MALLOC = os.environ.get(NO_ONEDNN[0]) == NO_ONEDNN[1]


@pytest.fixture
def on_cpu():
    """NumPy sees addresses on the CPU; of a GPU it gets copies."""
    with tf.device("/CPU:0"):
        yield


def address(tensor):
    return np.asarray(memoryview(tensor)).ctypes.data


def address_in_graph(tensor):
    return tf.numpy_function(lambda array: np.int64(array.ctypes.data), [tensor], tf.int64)


def topk(delta, residual):
    return ops.topk_residual(delta, residual, 10, lowering="fused").residual


def scatter(values, accumulator):
    return ops.scatter_decode_add(accumulator, values[:1], [0], [0, 1], lowering="fused")


in_place = pytest.mark.parametrize("op", [topk, scatter])


@in_place
@pytest.mark.parametrize("size", SIZES)
def test_an_argument_without_other_uses_becomes_the_output(op, size, on_cpu):
    @tf.function(autograph=False)
    def step(x):
        argument = x * 2.0
        before = address_in_graph(argument)
        with tf.control_dependencies([before]):
            return before, op(x, argument)

    before, output = step(tf.random.normal([size]))
    assert address(output) == int(before)


@in_place
def test_a_loop_reuses_one_buffer(op, on_cpu):
    """The runtimes reduce with such a loop. TensorFlow's own kernel for reductions keeps its state in use."""

    @tf.function(autograph=False)
    def reduce(x):
        def body(turn, state, addresses):
            addresses = addresses.write(turn, address_in_graph(state))
            with tf.control_dependencies([addresses.flow]):
                return turn + 1, op(x, state), addresses

        begin = (0, x * 2.0, tf.TensorArray(tf.int64, 5, element_shape=[]))
        _, state, addresses = tf.while_loop(lambda turn, *_: turn < 5, body, begin)
        return state, addresses.stack()

    state, addresses = reduce(tf.random.normal([SIZES[1]]))
    assert set(addresses.numpy()) == {address(state)}


@in_place
@pytest.mark.parametrize("size", SIZES)
def test_an_argument_with_other_uses_is_not_changed(op, size):
    @tf.function(autograph=False)
    def step(x):
        argument = x * 2.0
        return argument, op(x, argument)

    x = tf.random.normal([size])
    argument, output = step(x)
    np.testing.assert_array_equal(argument, x * 2.0)
    # Tensors that Python refers to are still needed, too.
    again = op(x, argument)
    np.testing.assert_array_equal(argument, x * 2.0)
    np.testing.assert_array_equal(again, output)
    assert (output.numpy() != argument.numpy()).any()


@pytest.mark.skipif(not FROM_MALLOC, reason="TensorFlow keeps memory itself; the last test runs this one")
@in_place
def test_a_large_output_lies_where_an_earlier_one_lay(op, fresh_pages, on_cpu):
    argument = tf.ones([12_000_000])  # malloc returns freed blocks of this size to the system
    pages = argument.shape.num_elements() * 4 / resource.getpagesize()
    if fresh_pages(lambda: argument + 1.0) < pages:
        pytest.skip("this machine does not count page faults")
    assert fresh_pages(lambda: op(argument, argument)) < pages / 100


def test_held_outputs_keep_their_values():
    updates = [tf.random.normal([SIZES[1]]) for _ in range(5)]
    held = [ops.topk_residual(update, update, 100_000, lowering="fused") for update in updates]
    expected = [ops.topk_residual(update, update, 100_000, lowering="reference") for update in updates]
    for found, wanted in zip(held, expected, strict=True):
        for output, reference in zip(found, wanted, strict=True):
            assert output.numpy().tobytes() == reference.numpy().tobytes()


def test_an_output_outlives_its_session():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        numbers = tf.range(float(SIZES[1]))
        output = session.run(topk(tf.ones_like(numbers), numbers))
    topk(tf.zeros(SIZES[1]), tf.zeros(SIZES[1]))  # would reuse freed memory
    np.testing.assert_array_equal(output[:-10], np.arange(1, SIZES[1] - 9, dtype=np.float32))
    np.testing.assert_array_equal(output[-10:], 0)


@pytest.mark.slow
@pytest.mark.skipif(FROM_MALLOC, reason="this is that run")
def test_all_of_this_holds_where_tensorflow_takes_its_memory_from_malloc():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, NO_ONEDNN[0]: NO_ONEDNN[1]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
