"""Tests the rules of an in-process executor, each found through a failure, and shared memory."""

from __future__ import annotations

import asyncio
import collections
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.eager import context as eager_context

from fedplug import kernels, ops
from fedplug.errors import ComputationError
from fedplug.tff.runtime import create_async_execution_context, create_sync_execution_context
from fedplug.tff.runtime.graphs.registered_function import Cancellation
from fedplug.tff.runtime.graphs.tensorflow_graphs import load
from fedplug.tff.runtime.inprocess.values import tensor_of
from fedplug.tff.runtime.tff_internals import computation_pb2

F32, I32 = np.float32, np.int32
pytestmark = pytest.mark.usefixtures("on_inprocess")

SIZE = 300_000  # from 64 KiB on, `kernels.empty` aligns arrays as TensorFlow requires


def proto_of(computation) -> computation_pb2.Computation:
    return tff.framework.ConcreteComputation.get_proto(computation)


def loaded(computation):
    """Returns the function itself, to call it from the test's own threads."""
    result = computation.type_signature.result
    parts = (
        [part for _, part in tff.structure.iter_elements(result)]
        if isinstance(result, tff.StructType)
        else [result]
    )
    return load(proto_of(computation), [part.shape for part in parts])


def in_threads(work, items, threads=8):
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


@tff.tensorflow.computation(I32)
def count_to(n):
    """Counts in a variable, slowly enough for other calls to interfere."""
    total = tf.Variable(0)
    loop = tf.while_loop(
        lambda i: i < n,
        lambda i: tf.tuple([i + 1], control_inputs=[total.assign_add(1, read_value=False)]),
        [tf.constant(0)],
    )
    with tf.control_dependencies(loop):
        return total.read_value()


def test_variables_are_private_to_a_call():
    function = loaded(count_to)
    counts = [tf.constant(n) for n in range(240)]
    results = in_threads(lambda n: int(function([n], Cancellation())[0]), counts)
    assert results == list(range(240))


def test_tables_are_private_to_a_call():
    @tff.tensorflow.computation(tff.TensorType(I32, []))
    def size_after_insert(key):
        table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, -1)
        with tf.control_dependencies([table.insert(key, key)]):
            return table.size()

    assert [size_after_insert(k) for k in range(3)] == [1, 1, 1]


def test_state_without_an_anonymous_form_is_fresh_in_every_call():
    @tff.tensorflow.computation(I32)
    def size_after_enqueue(n):
        queue = tf.queue.FIFOQueue(100, [tf.int32], shapes=[[]], shared_name="one queue")
        with tf.control_dependencies([queue.enqueue_many([tf.range(n)])]):
            return queue.size()

    assert [size_after_enqueue(n) for n in (3, 5)] == [3, 5]
    function = loaded(size_after_enqueue)
    sizes = [tf.constant(n % 7) for n in range(24)]
    assert in_threads(lambda n: int(function([n], Cancellation())[0]), sizes) == [n % 7 for n in range(24)]


def test_two_handles_of_one_variable_stay_one_variable():
    @tff.tensorflow.computation
    def written_through_one_and_read_through_the_other():
        write, read = (
            tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="one variable") for _ in range(2)
        )
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=write, value=7.0)]):
            return tf.raw_ops.ReadVariableOp(resource=read, dtype=tf.float32)

    assert written_through_one_and_read_through_the_other() == 7.0


def test_seeded_random_numbers_begin_anew_in_every_call_of_every_client():
    @tff.tensorflow.computation(I32)
    def draw(n):
        one_by_one = tf.while_loop(
            lambda i, _: i < n,
            lambda i, total: (i + 1, total * 10 + tf.random.uniform([], 0, 9, tf.int64, seed=3)),
            [0, tf.constant(0, tf.int64)],
            parallel_iterations=1,
        )[1]
        return one_by_one, tf.random.normal([2], seed=5)

    @tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS))
    def program(values):
        return tff.federated_map(draw, values)

    digits, numbers = draw(10)
    assert len(set(str(digits))) > 3  # within a call the numbers continue
    for own_digits, own_numbers in [draw(10), *program([10] * 8)]:
        assert own_digits == digits
        np.testing.assert_array_equal(own_numbers, numbers)


def test_library_functions_of_one_name_and_two_bodies_live_side_by_side():
    @tff.tensorflow.computation(tff.TensorType(F32, [2]))
    def doubled(x):
        return tf.map_fn(tf.function(lambda element: element * 2.0, autograph=False), x)

    tripled = computation_pb2.Computation()
    tripled.CopyFrom(proto_of(doubled))
    graph = tf.compat.v1.GraphDef()
    tripled.tensorflow.graph_def.Unpack(graph)
    twos = [
        node.attr["value"].tensor
        for function in graph.library.function
        for node in function.node_def
        if node.op == "Const" and node.attr["value"].tensor == tf.make_tensor_proto(2.0)
    ]
    assert twos
    for two in twos:
        two.CopyFrom(tf.make_tensor_proto(3.0))
    tripled.tensorflow.graph_def.Pack(graph)

    functions = [loaded(doubled), load(tripled, [(2,)])]
    results = [function([tf.ones([2])], Cancellation())[0].numpy().tolist() for function in functions * 2]
    assert results == [[2.0, 2.0], [3.0, 3.0]] * 2


def test_every_consumer_of_state_waits_for_the_initializer():
    @tff.tensorflow.computation(I32)
    def reads_before_anything_else(n):
        slow = tf.Variable(
            lambda: tf.cast(
                tf.reduce_sum(tf.linalg.matmul(tf.ones([200, 200]), tf.ones([200, 200]))), tf.int32
            )
        )
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.range(10_000), tf.range(10_000)), -1
        )
        looked_up = (
            tf.data.Dataset.range(3, output_type=tf.int32).map(table.lookup).reduce(0, lambda a, b: a + b)
        )
        return slow.read_value() + n, looked_up

    function = loaded(reads_before_anything_else)
    results = in_threads(lambda n: [int(r) for r in function([tf.constant(n)], Cancellation())], range(40))
    assert results == [[200**3 + n, 3] for n in range(40)]


def test_concurrent_clients_have_their_own_copies_of_data_kernels():
    """Each client waits in its dataset for the other: with one shared kernel they would deadlock."""
    barrier = threading.Barrier(2)

    def meet(x):
        barrier.wait(timeout=600)
        return x

    @tff.tensorflow.computation(tff.SequenceType(I32))
    def total(data):
        return data.reduce(0, lambda a, x: a + tf.numpy_function(meet, [x], tf.int32, stateful=True))

    @tff.federated_computation(tff.FederatedType(tff.SequenceType(I32), tff.CLIENTS))
    def program(data):
        return tff.federated_map(total, data)

    context = create_sync_execution_context(max_concurrent_clients=2)
    with tff.framework.get_context_stack().install(context):
        assert program([[1, 2], [3, 4]]) == [3, 7]
    context.close()


def test_the_options_of_the_program_are_left_alone():
    before = tf.config.optimizer.get_experimental_options()
    assert count_to(1) == 1
    assert tf.config.optimizer.get_experimental_options() == before


def test_results_of_another_shape_are_refused():
    graph = tf.Graph()
    with graph.as_default():
        source = tf.compat.v1.placeholder(tf.float32, [None], name="x")
        result = tf.identity(source, name="y")
        result.set_shape([3])
    binding = computation_pb2.TensorFlow.Binding
    proto = computation_pb2.Computation()
    proto.tensorflow.graph_def.Pack(graph.as_graph_def(add_shapes=False))
    proto.tensorflow.parameter.CopyFrom(binding(tensor={"tensor_name": "x:0"}))
    proto.tensorflow.result.CopyFrom(binding(tensor={"tensor_name": "y:0"}))
    proto.type.CopyFrom(
        tff.types.serialize_type(tff.FunctionType(tff.TensorType(F32, [None]), tff.TensorType(F32, [3])))
    )
    wrong = tff.framework.deserialize_computation(proto)
    with pytest.raises(TypeError, match=r"shape \(2,\), expected \(3,\)"):
        wrong(np.ones([2], F32))
    assert wrong(np.ones([3], F32)).tolist() == [1.0, 1.0, 1.0]


def test_a_failure_stops_running_and_queued_clients():
    started: list[int] = []

    both = threading.Barrier(2)

    def start(index):
        started.append(int(index))
        both.wait(timeout=600)
        return index

    @tff.tensorflow.computation(I32)
    def work(index):
        index = tf.ensure_shape(tf.numpy_function(start, [index], tf.int32), [])
        # Client 1 fails at once; without cancellation the others would run for hours.
        with tf.control_dependencies([tf.debugging.assert_none_equal(index, 1)]):
            return tf.while_loop(
                lambda i: i < 2**31 - 1, lambda i: i + 1, [tf.identity(index)], parallel_iterations=1
            )

    @tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS))
    def program(indices):
        return tff.federated_map(work, indices)

    context = create_sync_execution_context(max_concurrent_clients=2)
    with tff.framework.get_context_stack().install(context):
        with pytest.raises(ComputationError, match="client 1 of 100") as caught:
            program(list(range(100)))
        assert caught.value.client == 1
        assert isinstance(caught.value.__cause__, tf.errors.InvalidArgumentError)
        assert sorted(started) == [0, 1]
        assert count_to(3) == 3
    context.close()


def endless():
    @tff.tensorflow.computation
    def never():
        return tf.while_loop(lambda i: i >= 0, lambda i: tf.maximum(i + 1, 0), [tf.constant(0)])

    return never


def test_a_cancelled_computation_stops_and_the_event_loop_continues():
    async def scenario():
        context = create_async_execution_context()
        with tff.framework.get_context_stack().install(context):
            task = asyncio.ensure_future(endless()())
            await asyncio.sleep(0.3)  # the loop is free while the computation runs
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await count_to(4)

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(asyncio.wait_for(scenario(), 60)) == 4
    loop.close()


def test_functions_are_cached_by_content_not_by_the_identity_the_compiler_writes():
    first, second = computation_pb2.Computation(), computation_pb2.Computation()
    first.CopyFrom(proto_of(count_to))
    second.CopyFrom(proto_of(count_to))
    first.tensorflow.cache_key.id, second.tensorflow.cache_key.id = 7, 8
    other = proto_of(tff.tensorflow.computation(lambda x: x + 2, I32))
    other.tensorflow.cache_key.id = 7
    assert load(first, [()]) is load(second, [()])
    assert load(other, [()]) is not load(first, [()])


def test_functions_leave_tensorflow_with_the_computation_that_needed_them():
    def names():
        return {n for n in eager_context.context().list_function_names() if n.startswith("fedplug_")}

    def use():
        computation = tff.tensorflow.computation(lambda x: x * 17 + 4, I32)
        before = names()
        function = loaded(computation)
        assert computation(1) == 21
        assert function is not None
        return names() - before

    registered = use()
    gc.collect()
    assert registered
    assert not registered & names()


def test_results_do_not_share_memory_with_arguments_that_can_be_written_to():
    argument = np.ones([1000], F32)
    echo = tff.tensorflow.computation(lambda x: x, tff.TensorType(F32, [1000]))
    result = echo(argument)
    argument[:] = 5
    assert (result == 1).all()
    assert not result.flags.writeable


def test_dictionaries_in_another_order_are_refused_not_swapped():
    element = collections.OrderedDict(b=F32, a=I32)
    first = tff.tensorflow.computation(lambda data: data.take(1), tff.SequenceType(element))
    data = tf.data.Dataset.from_tensors(collections.OrderedDict(a=1, b=2.0))
    with pytest.raises(TypeError, match="Cannot serialize dataset"):
        first(data)


def read_only(values, dtype=np.float32):
    array = kernels.empty(np.shape(values), np.dtype(dtype))
    array[...] = values
    array.flags.writeable = False
    return array


def share(tensor, array):
    return np.shares_memory(np.asarray(tensor), array)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, tf.bfloat16.as_numpy_dtype])
def test_read_only_memory_is_shared(dtype):
    array = read_only((np.arange(SIZE) % 100).reshape(-1, 5), dtype)
    tensor = tensor_of(array)
    assert share(tensor, array)
    assert (tensor.dtype, tensor.shape) == (tf.as_dtype(dtype), array.shape)
    np.testing.assert_array_equal(tensor, array)


def test_writable_memory_is_copied():
    array = np.ones(100, np.float32)
    view = array[:]
    view.flags.writeable = False
    tensors = [tensor_of(array), tensor_of(view)]
    array[:] = 2
    for tensor in tensors:
        np.testing.assert_array_equal(tensor, np.ones(100))


def test_no_op_writes_its_result_over_it():
    residual = read_only(np.ones(SIZE))
    chosen = ops.topk_residual(tf.zeros(SIZE), tensor_of(residual), 10)
    assert not share(chosen.residual, residual)
    np.testing.assert_array_equal(residual, np.ones(SIZE))
    np.testing.assert_array_equal(tf.function(lambda x: x + 1)(tensor_of(residual)), np.full(SIZE, 2))
    np.testing.assert_array_equal(residual, np.ones(SIZE))
