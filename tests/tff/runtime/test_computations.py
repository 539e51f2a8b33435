"""Tests that hand-written computations give exactly the results of TFF's stock worker, and secure sums."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ComputationError

F32, I32 = np.float32, np.int32
CLIENTS, SERVER = tff.CLIENTS, tff.SERVER

PAIR = (I32, tff.TensorType(I32, [2]))


def at_clients(member, all_equal=False):
    return tff.FederatedType(member, CLIENTS, all_equal)


@tff.tensorflow.computation(F32)
def double(x):
    return x * 2


@tff.tensorflow.computation(F32, F32)
def add(x, y):
    return x + y


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *((np.bool_, True), (np.bool_, -1), (np.int8, -1), (np.int8, 128), (np.int8, 0.1), (np.int64, True)),
        *((np.int64, 2**63), (np.float16, 0.1), (F32, 0.1), (F32, -1), (F32, 1e300), (F32, -float("inf"))),
    ],
)
def test_scalars_of_python_are_taken_as_by_the_stock_runtime(inprocess, native, dtype, value):
    echo = tff.tensorflow.computation(lambda x: tf.identity(x), dtype)
    outcomes = []
    for context in (inprocess, native):
        with tff.framework.get_context_stack().install(context):
            try:
                result = echo(value)
                outcomes.append((type(result), str(result)))
            except TypeError as error:
                outcomes.append((TypeError, str(error)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("shape", [(3,), (1, 0, 2)])
@pytest.mark.parametrize("declared", ["known", "unknown size", "unknown rank"])
def test_every_shape_goes_in_and_comes_out(same_on_both, shape, declared):
    spec = {"known": shape, "unknown size": [None] * len(shape), "unknown rank": None}[declared]
    array = np.arange(np.prod(shape), dtype=F32).reshape(shape)
    same_on_both(
        lambda: tff.tensorflow.computation(lambda x: tf.identity(x), tff.TensorType(F32, spec))(array)
    )


def test_structures_keep_names_containers_and_order(same_on_both):
    point = collections.namedtuple("point", ["y", "x"])

    @tff.tensorflow.computation
    def structures():
        return (
            collections.OrderedDict(b=tf.constant(1), a=(tf.constant(2.0), [tf.constant(3)])),
            point(4, 5),
            (),
        )

    mapping, named, empty = same_on_both(structures)
    assert isinstance(mapping, collections.OrderedDict)
    assert isinstance(named, point)
    assert isinstance(empty, tuple)


def test_datasets_are_arguments_and_results(same_on_both):
    element = collections.OrderedDict(b=tff.TensorType(F32, [None]), a=I32)

    @tff.tensorflow.computation(tff.SequenceType(element))
    def shift(data):
        return data.map(lambda e: collections.OrderedDict(b=e["b"] + 1, a=e["a"] + 1)), data.reduce(
            0, lambda total, e: total + e["a"]
        )

    elements = [collections.OrderedDict(b=np.ones([n], F32), a=n) for n in (2, 2, 1)]
    dataset = tf.data.Dataset.from_tensor_slices(collections.OrderedDict(b=np.ones([3, 2], F32), a=[1, 2, 3]))
    same_on_both(lambda: shift(elements))
    same_on_both(lambda: shift(dataset))


def test_state_of_a_graph_is_initialized_and_used(same_on_both):
    @tff.tensorflow.computation(F32)
    def stateful(x):
        variable = tf.Variable(1.0)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
        with tf.control_dependencies([variable.assign_add(x)]):
            return variable.read_value(), table.lookup(tf.constant(["b", "c"]))

    same_on_both(lambda: [stateful(2.0), stateful(2.0)])


def test_old_and_new_loops_run(same_on_both):
    @tff.tensorflow.computation(I32)
    def loops(n):
        new = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), [0, 1])[1]
        tf.compat.v1.disable_control_flow_v2()
        try:
            weights = tf.Variable(3)
            old = tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x + weights.read_value()), [0, 1])[1]
        finally:
            tf.compat.v1.enable_control_flow_v2()
        return new, old

    assert same_on_both(lambda: loops(5)) == (32, 16)


def test_map_broadcast_zip_and_sum(same_on_both):
    @tff.federated_computation(at_clients(F32), tff.FederatedType(F32, SERVER))
    def program(values, offset):
        sent = tff.federated_broadcast(offset)
        moved = tff.federated_map(add, tff.federated_zip((values, sent)))
        return moved, tff.federated_sum(moved), tff.federated_map(double, offset), sent

    same_on_both(lambda: program([1.0, 2.5, -3.0], 10.0))


def test_values_and_evaluations_at_both_placements(same_on_both, inprocess):
    one = tff.tensorflow.computation(lambda: tf.constant(1))

    @tff.federated_computation(at_clients(F32))
    def program(values):
        return (
            tff.federated_value(1, SERVER),
            tff.federated_value(2, CLIENTS),
            tff.federated_eval(one, SERVER),
            tff.federated_sum(tff.federated_eval(one, CLIENTS)),
            tff.federated_zip((tff.federated_value(3, SERVER), tff.federated_value(4, SERVER))),
            tff.federated_zip((tff.federated_value(5, CLIENTS), values)),
        )

    same_on_both(lambda: program([1.0, 2.0]))


def test_aggregate_of_an_all_equal_value_counts_every_client(same_on_both):
    @tff.federated_computation(at_clients(F32), tff.FederatedType(F32, SERVER))
    def program(values, sent):
        return tff.federated_sum(tff.federated_broadcast(sent)), tff.federated_sum(values)

    same_on_both(lambda: program([1.0, 2.0, 3.0], 5.0))


def test_select(same_on_both):
    slice_ = tff.tensorflow.computation(
        lambda table, key: tf.gather(table, key), tff.TensorType(F32, [4, 2]), I32
    )

    @tff.federated_computation(
        at_clients(tff.TensorType(I32, [2])), tff.FederatedType(tff.TensorType(F32, [4, 2]), SERVER)
    )
    def program(keys, table):
        return tff.federated_select(keys, tff.federated_value(4, SERVER), table, slice_)

    table = np.arange(8, dtype=F32).reshape(4, 2)
    keys = [np.array(k, I32) for k in ([0, 3], [2, 2])]
    same_on_both(lambda: program(keys, table))


def test_sequence_map_and_reduce_at_clients(same_on_both):
    @tff.federated_computation(at_clients(tff.SequenceType(F32)))
    def program(data):
        doubled = tff.federated_map(
            tff.federated_computation(lambda s: tff.sequence_map(double, s), tff.SequenceType(F32)), data
        )
        totals = tff.federated_map(
            tff.federated_computation(lambda s: tff.sequence_reduce(s, 0.0, add), tff.SequenceType(F32)),
            doubled,
        )
        return tff.federated_sum(totals)

    same_on_both(lambda: program([[1.0, 2.0], [3.0]]))


def test_nested_computations_and_functions_as_values(same_on_both):
    @tff.federated_computation(tff.FunctionType(F32, F32), F32)
    def twice(function, value):
        return function(function(value))

    @tff.federated_computation(F32)
    def program(value):
        return twice(double, value), collections.OrderedDict(v=value)["v"]

    same_on_both(lambda: program(1.5))


def test_no_client_at_all_gives_the_zero(same_on_both):
    @tff.federated_computation(at_clients(F32))
    def program(values):
        return tff.federated_sum(tff.federated_map(double, values)), tff.federated_mean(values)

    same_on_both(lambda: program([]))


def test_sequence_sum_and_empty_sequences(on_inprocess):
    """The stock worker does not support sequence_sum."""

    @tff.federated_computation(tff.SequenceType(collections.OrderedDict(b=F32, a=I32)))
    def program(data):
        return tff.sequence_sum(data)

    assert program([collections.OrderedDict(b=1.5, a=2)] * 3) == collections.OrderedDict(b=4.5, a=6)
    assert program([]) == collections.OrderedDict(b=0.0, a=0)


def test_sequence_map_of_elements_with_different_shapes(on_inprocess):
    element = tff.TensorType(F32, [None])
    longer = tff.tensorflow.computation(lambda x: (x, tf.concat([x, x], 0)), element)

    @tff.federated_computation(tff.SequenceType(element))
    def program(data):
        return tff.sequence_map(longer, data)

    sizes = [2, 2, 0, 1]
    data = tf.data.Dataset.from_tensor_slices(sizes).map(lambda n: tf.cast(tf.range(n), tf.float32))
    result = [(a.numpy().tolist(), b.numpy().tolist()) for a, b in program(data)]
    assert result == [([*map(float, range(n))], [*map(float, range(n))] * 2) for n in sizes]
    assert list(program([])) == []


def sum_of(make, member=PAIR):
    return tff.federated_computation(make, tff.FederatedType(member, tff.CLIENTS))


VALUES = [(1, np.array([2, 3], I32)), (4, np.array([5, 6], I32))]


@pytest.mark.usefixtures("on_inprocess")
class TestSecureSums:
    def test_sum_within_the_bound_is_the_sum(self):
        for total in (
            sum_of(lambda v: tff.federated_secure_sum(v, 6)),
            sum_of(lambda v: tff.federated_secure_sum(v, (4, 6))),
            sum_of(lambda v: tff.federated_secure_sum_bitwidth(v, 3)),
        ):
            first, second = total(VALUES)
            assert first == 5
            np.testing.assert_array_equal(second, [7, 9])

    def test_value_above_the_bound_names_the_client(self):
        for total in (
            sum_of(lambda v: tff.federated_secure_sum(v, 5)),
            sum_of(lambda v: tff.federated_secure_sum_bitwidth(v, 2)),
        ):
            with pytest.raises(ComputationError, match=r"client 1 of 2.*larger than maximum"):
                total(VALUES)

    def test_modular_sum_wraps(self):
        from tensorflow_federated.python.core.backends.mapreduce import intrinsics

        total = sum_of(lambda v: intrinsics.federated_secure_modular_sum(v, np.int32(4)), I32)
        assert total([3, 3, 3]) == 1
        assert total([-1]) == 3

    def test_no_client_gives_zero(self):
        first, second = sum_of(lambda v: tff.federated_secure_sum(v, 6))([])
        assert first == 0
        np.testing.assert_array_equal(second, [0, 0])

    def test_secure_select_is_select(self):
        pick = tff.tensorflow.computation(lambda table, key: table + key, I32, I32)

        @tff.federated_computation(
            tff.FederatedType(tff.TensorType(I32, [2]), tff.CLIENTS), tff.FederatedType(I32, tff.SERVER)
        )
        def program(keys, table):
            return tff.federated_secure_select(keys, tff.federated_value(9, tff.SERVER), table, pick)

        assert [[int(x) for x in d] for d in program([np.array([1, 2], I32)], 10)] == [[11, 12]]
