"""Tests the effect of the rewrites on graphs."""

from __future__ import annotations

import tensorflow as tf

from fedplug.tff.runtime.graphs.private_calls import make_private


def graph_of(build) -> tf.compat.v1.GraphDef:
    with tf.Graph().as_default() as graph:
        build()
    return graph.as_graph_def()


def nodes(private) -> dict[str, tf.compat.v1.NodeDef]:
    return {node.name: node for node in private.graph_def.node}


def test_only_nodes_that_the_fetches_need_are_kept_and_the_given_graph_is_not_changed():
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


def test_data_sets_are_on_the_cpu_and_the_rest_where_it_asked_to_be_or_on_the_runtimes_device():
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
    assert devices["While"] == "/device:CPU:0"


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


def test_an_affinity_to_a_lost_node_is_dropped():
    def build():
        gone = tf.constant(1, name="gone")
        with tf.compat.v1.colocate_with(gone):
            tf.constant(2, name="stays")

    private = make_private(graph_of(build), ["stays:0"], "", "p_")
    assert list(nodes(private)["stays"].attr["_class"].list.s) == []
