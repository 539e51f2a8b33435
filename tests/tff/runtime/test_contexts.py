"""Tests how runtimes are selected, what they refuse, and their behavior in event loops and after a fork."""

from __future__ import annotations

import asyncio
import os

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug import ops
from fedplug.errors import ConfigError, LoweringError, UnknownNameError
from fedplug.tff.process import Transform, TransformFactory
from fedplug.tff.runtime import create_async_execution_context, create_sync_execution_context, use_runtime
from fedplug.tff.runtime.compiler import compile_block
from fedplug.tff.runtime.inprocess import context as inprocess_context
from fedplug.tff.runtime.native.context import custom_ops_of
from fedplug.tff.runtime.tff_internals import computation_pb2

I32 = np.int32

LAYERS = 30


def run_async(coroutine):
    """Runs a coroutine like `asyncio.run`, but keeps the thread's event loop for TFF's simulations."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def current_context():
    return tff.framework.get_context_stack().current


def test_an_unknown_runtime_is_named_with_the_nearest_one():
    before = current_context()
    with pytest.raises(UnknownNameError, match=r"unknown runtime 'inproces'; did you mean 'inprocess'\?"):
        use_runtime("inproces")
    assert current_context() is before


def holding_custom_op(add_one) -> tff.framework.ConcreteComputation:
    """A federated computation whose nested graph has an op of fedplug."""
    graph = tf.compat.v1.GraphDef()
    proto = computation_pb2.Computation()
    proto.CopyFrom(tff.framework.ConcreteComputation.get_proto(add_one))
    proto.tensorflow.graph_def.Unpack(graph)
    graph.node.add(name="custom", op="Fedplug>GroupedTopKResidual")
    proto.tensorflow.graph_def.Pack(graph)
    inner = tff.framework.deserialize_computation(proto)
    return tff.federated_computation(
        lambda values: tff.federated_map(inner, values), tff.FederatedType(I32, tff.CLIENTS)
    )


def test_the_stock_worker_is_not_asked_to_run_custom_ops(add_one, total):
    computation = holding_custom_op(add_one)
    assert custom_ops_of(computation) == ["Fedplug>GroupedTopKResidual"]
    assert custom_ops_of(total) == []
    with use_runtime("native") as handle:
        with pytest.raises(
            LoweringError,
            match=r'Fedplug>GroupedTopKResidual.*lowering="reference".*use_runtime\("inprocess"\)',
        ):
            computation([1])
        assert handle.context.worker is None


@pytest.mark.parametrize(
    ("computation", "argument", "intrinsic"),
    [
        (
            tff.federated_computation(
                lambda x: tff.federated_secure_sum_bitwidth(x, 8), tff.FederatedType(I32, tff.CLIENTS)
            ),
            [1, 2],
            "federated_secure_sum_bitwidth",
        ),
        (tff.federated_computation(tff.sequence_sum, tff.SequenceType(I32)), [1, 2], "sequence_sum"),
    ],
    ids=["secure sum", "sequence sum"],
)
def test_no_unsupported_request_is_sent_to_the_stock_worker(computation, argument, intrinsic):
    with use_runtime("native") as handle:
        with pytest.raises(LoweringError, match=rf'holds {intrinsic}, .*use_runtime\("inprocess"\)'):
            computation(argument)
        assert handle.context.worker is None


def test_jax_computations_are_refused_in_plain_words(on_inprocess):
    proto = computation_pb2.Computation()
    proto.type.CopyFrom(tff.types.serialize_type(tff.FunctionType(None, tff.TensorType(I32))))
    proto.xla.SetInParent()
    inner = tff.framework.deserialize_computation(proto)
    with pytest.raises(LoweringError, match="'xla' is not supported"):
        inner()


def test_the_default_number_of_clients_applies_where_no_argument_tells():
    one = tff.tensorflow.computation(lambda: tf.constant(1))
    count = tff.federated_computation(lambda: tff.federated_sum(tff.federated_eval(one, tff.CLIENTS)))
    with use_runtime("inprocess", default_num_clients=7):
        assert count() == 7
    with use_runtime("inprocess"):
        assert count() == 0


@pytest.mark.parametrize("width", [0, -1])
def test_a_pool_without_clients_is_refused(width):
    with pytest.raises(ConfigError, match=f"max_concurrent_clients is {width}; at least one client"):
        create_sync_execution_context(max_concurrent_clients=width)


class TestErrorsAreThoseOfTff:
    @pytest.mark.parametrize(
        "value", [3, [1, "one"], [1.5], [[1, 2]]], ids=["no list", "string", "float", "shape"]
    )
    def test_wrong_arguments(self, inprocess, native, total, value):
        raised = []
        for context in (inprocess, native):
            with tff.framework.get_context_stack().install(context), pytest.raises(TypeError) as caught:
                total(value)
            raised.append((caught.type, str(caught.value)))
        assert raised[0] == raised[1]

    def test_conflicting_cardinalities(self, on_inprocess):
        @tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS), tff.FederatedType(I32, tff.CLIENTS))
        def both(a, b):
            return tff.federated_sum(a), tff.federated_sum(b)

        with pytest.raises(ValueError, match="Conflicting cardinalities"):
            both([1, 2], [1])

    def test_a_data_set_of_another_structure(self, on_inprocess):
        reduce = tff.tensorflow.computation(lambda d: d.reduce(0, lambda a, x: a + x), tff.SequenceType(I32))
        with pytest.raises(TypeError, match="Cannot serialize dataset with elements of type"):
            reduce(tf.data.Dataset.from_tensors(1.5))
        with pytest.raises(TypeError, match="Cannot serialize Python type"):
            reduce(3)


def test_computations_run_inside_a_running_event_loop(inprocess, total):
    async def notebook_cell():
        with tff.framework.get_context_stack().install(inprocess):
            return total([1, 2, 3])

    assert run_async(notebook_cell()) == 9


def test_asynchronous_computations_run_concurrently_on_one_loop(total):
    async def program():
        with tff.framework.get_context_stack().install(create_async_execution_context()):
            return await asyncio.gather(*(total([n, n]) for n in range(5)))

    assert run_async(program()) == [2 * n + 2 for n in range(5)]


def test_a_context_refuses_to_work_after_a_fork(inprocess, add_one):
    with tff.framework.get_context_stack().install(inprocess):
        assert add_one(1) == 2
        child = os.fork()
        if child == 0:
            try:
                add_one(1)
            except RuntimeError as error:
                os._exit(0 if "made before a fork()" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


class Counting(Transform):
    """Adds one to every value and counts its rounds."""

    def init_state(self):
        return {"rounds": tf.constant(0)}

    def forward(self, value, state):
        return value + 1.0

    def backward(self, total, state):
        return total

    def next_state(self, total, state):
        return {"rounds": state["rounds"] + 1}


@pytest.mark.slow
@pytest.mark.usefixtures("on_inprocess")
def test_thirty_aggregators_within_one_another_build_and_run():
    factory = tff.aggregators.SumFactory()
    for _ in range(LAYERS):
        factory = TransformFactory(Counting(), factory)
    process = factory.create(tff.TensorType(np.float32, [2]))
    state = process.initialize()
    for _ in range(2):
        output = process.next(state, [np.zeros(2, np.float32), np.array([0.0, 2.0], np.float32)])
        state = output.state
    np.testing.assert_array_equal(output.result, [2 * LAYERS, 2 * LAYERS + 2])
    for _ in range(LAYERS):
        assert state["transform"]["rounds"] == 2
        state = state["inner"]


@tff.tensorflow.computation(tff.TensorType(np.uint8, [None]))
def checksums(data):
    return [ops.crc32(data[place:], lowering="reference") for place in range(4)]


def test_a_computation_is_compiled_once_in_a_process(monkeypatch):
    compiled, compile_program = [], inprocess_context.compile_program
    monkeypatch.setattr(
        inprocess_context,
        "compile_program",
        lambda computation: compiled.append(1) or compile_program(computation),
    )
    computation = tff.tensorflow.computation(lambda: 7)
    for _ in range(2):
        with use_runtime("inprocess"):
            assert computation() == 7
    assert len(compiled) == 1


def size_of(computation) -> int:
    return tff.framework.ConcreteComputation.get_proto(computation).ByteSize()


def test_a_function_that_is_called_four_times_is_there_once_and_computes_the_same() -> None:
    stock = tff.backends.native.desugar_and_transform_to_native(checksums)
    compiled = compile_block(checksums.to_building_block(), inline_functions=False)
    assert size_of(compiled) < size_of(stock) / 2
    data = np.arange(100, dtype=np.uint8)
    with use_runtime("native"):
        found = checksums(data)
    assert [int(one) for one in found] == [int(ops.crc32(data[place:])) for place in range(4)]
