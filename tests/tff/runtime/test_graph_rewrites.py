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
