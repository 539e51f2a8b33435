"""Tests the effect of the rewrites on graphs."""

from __future__ import annotations

import pytest
import tensorflow as tf

from fedplug.tff.runtime.graphs.private_calls import make_private, node_of


def graph_of(build) -> tf.compat.v1.GraphDef:
    with tf.Graph().as_default() as graph:
        build()
    return graph.as_graph_def()


def nodes(private) -> dict[str, tf.compat.v1.NodeDef]:
    return {node.name: node for node in private.graph_def.node}


def test_only_what_the_fetches_need_is_kept_and_the_given_graph_is_not_changed():
    def build():
        kept = tf.constant(1, name="kept")
        with tf.control_dependencies([tf.constant(2, name="awaited")]):
            tf.identity(kept, name="result")
        tf.constant(3, name="dropped")

    graph = graph_of(build)
    before = graph.SerializeToString(deterministic=True)
    private = make_private(graph, ["result:0"], "", "p_")
    assert set(nodes(private)) == {"kept", "awaited", "result"}
    assert not private.one_shot
    assert not private.exclusive
    assert graph.SerializeToString(deterministic=True) == before


def test_data_sets_stay_on_the_cpu_and_the_rest_where_it_asked_to_be():
    @tf.function
    def step(total, x):
        with tf.device("/device:GPU:0"):
            return tf.linalg.matmul(total, x)

    def build():
        data = tf.data.Dataset.from_tensors(tf.ones([2, 2])).repeat(3)
        tf.identity(data.reduce(tf.eye(2), step), name="reduced")
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        with tf.device("/device:GPU:0"):
            tf.identity(iterator.get_next(), name="element")

    private = make_private(graph_of(build), ["reduced:0", "element:0"], "", "p_").graph_def
    everywhere = [*private.node, *(node for f in private.library.function for node in f.node_def)]
    devices = {node.op: node.device for node in everywhere}
    of_data = {op for op in devices if "Dataset" in op or "Iterator" in op or "Optional" in op}
    assert {"TensorDataset", "RepeatDataset", "IteratorGetNext", "IteratorGetNextAsOptional"} <= of_data
    assert {devices[op] for op in of_data} == {"/device:CPU:0"}
    assert devices["MatMul"] == "/device:GPU:0"
    assert devices["While"] == ""


def test_a_fetch_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no node 'absent'"):
        make_private(graph_of(lambda: tf.constant(1)), ["absent:0"], "", "p_")


def test_library_functions_are_renamed_wherever_they_are_referred_to():
    inner = tf.function(lambda x: x + 1)
    outer = tf.function(lambda x: tf.cond(x > 0, lambda: inner(x), lambda: x))

    def build():
        x = tf.compat.v1.placeholder(tf.int32, [], name="x")
        tf.identity(outer(x), name="call")
        tf.map_fn(inner, tf.stack([x, x]), name="map")
        tf.identity(tf.while_loop(lambda i: i < 3, lambda i: inner(i), [x])[0], name="loop")

    graph = graph_of(build)
    old = {function.signature.name for function in graph.library.function}
    private = make_private(graph, ["call:0", "loop:0"], "", "p_")
    assert {f.signature.name for f in private.graph_def.library.function} == {f"p_{name}" for name in old}
    bodies = [private.graph_def.node, *(f.node_def for f in private.graph_def.library.function)]
    attrs = [attr for body in bodies for node in body for attr in node.attr.values()]
    references = {reference.name for attr in attrs for reference in (attr.func, *attr.list.func)} - {""}
    assert references
    assert all(name.startswith("p_") for name in references)
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(private.graph_def, name="")


def test_handles_of_one_variable_become_one_anonymous_handle():
    def build():
        handles = [
            tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name=name, name=node)
            for node, name in (("a", "v"), ("b", "v"), ("other", "w"))
        ]
        reads = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in handles]
        tf.add_n(reads, name="sum")

    private = make_private(graph_of(build), ["sum:0", "b:0"], "", "p_")
    handles = [node for node in private.graph_def.node if node.op == "VarHandleOp"]
    assert [node.name for node in handles] == ["a", "other"]
    assert len({node.attr["shared_name"].s for node in handles}) == 1
    assert private.fetches == ["sum:0", "a:0"]
    assert not private.one_shot


def test_tables_become_anonymous():
    def build():
        table = tf.raw_ops.HashTableV2(
            key_dtype=tf.int32, value_dtype=tf.int32, shared_name="t", name="table"
        )
        tf.raw_ops.LookupTableSizeV2(table_handle=table, name="size")

    private = make_private(graph_of(build), ["size:0"], "", "p_")
    assert nodes(private)["table"].op == "AnonymousHashTable"
    assert "shared_name" not in nodes(private)["table"].attr
    assert not private.one_shot


def test_state_without_an_anonymous_form_may_be_used_once():
    def build():
        queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.int32], shared_name="q", name="queue")
        tf.raw_ops.QueueSizeV2(handle=queue, name="size")

    private = make_private(graph_of(build), ["size:0"], "", "p_")
    assert private.one_shot
    assert nodes(private)["queue"].attr["shared_name"].s == b""


def test_state_named_in_a_function_keeps_its_name_made_unique():
    @tf.function
    def read():
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v")
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)

    def build():
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", name="outer")
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=handle, value=1.0)]):
            tf.identity(read(), name="result")

    private = make_private(graph_of(build), ["result:0"], "", "p_")
    assert private.one_shot
    inner = [
        node for f in private.graph_def.library.function for node in f.node_def if node.op == "VarHandleOp"
    ]
    names = {node.attr["shared_name"].s for node in [nodes(private)["outer"], *inner]}
    assert names == {b"p_v"}


def test_readers_of_state_wait_for_the_initializer_also_those_inside_loops():
    def build():
        variable = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", name="variable")
        assign = tf.raw_ops.AssignVariableOp(resource=variable, value=1.0, name="assign")
        tf.group(assign, name="initialize")
        enter = tf.raw_ops.Enter(data=variable, frame_name="loop", is_constant=True, name="enter")
        tf.raw_ops.ReadVariableOp(resource=enter, dtype=tf.float32, name="inside")
        tf.raw_ops.ReadVariableOp(resource=variable, dtype=tf.float32, name="outside")

    private = make_private(graph_of(build), ["inside:0", "outside:0"], "initialize", "p_")
    waiting = {name for name, node in nodes(private).items() if "^initialize" in node.input}
    assert waiting == {"enter", "outside"}


def test_wishes_to_be_near_a_node_that_is_gone_are_dropped():
    def build():
        gone = tf.constant(1, name="gone")
        with tf.compat.v1.colocate_with(gone):
            tf.constant(2, name="stays")

    private = make_private(graph_of(build), ["stays:0"], "", "p_")
    assert list(nodes(private)["stays"].attr["_class"].list.s) == []


def test_graphs_with_data_kernels_are_exclusive():
    def build():
        data = tf.data.Dataset.range(3)
        tf.identity(data.reduce(tf.constant(0, tf.int64), lambda a, b: a + b), name="result")

    assert make_private(graph_of(build), ["result:0"], "", "p_").exclusive


@pytest.mark.parametrize(("name", "node"), [("a", "a"), ("a:1", "a"), ("^a", "a"), ("scope/a:0", "scope/a")])
def test_the_node_of_a_name(name, node):
    assert node_of(name) == node
