"""Graphs of references are traced once for equal calls, and contain no compiled op."""

from __future__ import annotations

import pytest
import tensorflow as tf

from fedplug import ops
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import use_lowering


@pytest.fixture
def counted():
    """A reference, and the arguments of each trace."""
    traced = []

    @traced_once
    def doubled(x, word):
        traced.append((x.shape, word))
        return x * 2

    return doubled, traced


def in_graph(function):
    with tf.Graph().as_default() as graph:
        function()
    return graph


def test_graphs_share_equal_functions(counted) -> None:
    doubled, traced = counted
    for _ in range(2):
        in_graph(lambda: [doubled(tf.zeros([3]), "a"), doubled(tf.ones([3]), "a")])
    assert traced == [([3], "a")]
    in_graph(lambda: [doubled(tf.zeros([3]), "b"), doubled(tf.zeros([4]), "a")])
    assert traced[1:] == [([3], "b"), ([4], "a")]
    # Bytes and indices may be of any number.
    in_graph(lambda: [doubled(tf.ones([n], t), "a") for t in (tf.uint8, tf.int32) for n in (1, 2, 3)])
    assert [(shape.as_list(), word) for shape, word in traced[3:]] == [([None], "a")] * 2


def test_eager_calls_leave_no_graph_behind(counted) -> None:
    doubled, traced = counted
    for _ in range(2):
        assert doubled(tf.ones([2]), "a").numpy().tolist() == [2, 2]
    assert len(traced) == 2


def test_a_reference_calls_references_whatever_was_traced_first() -> None:
    """A graph for a runtime without compiled ops may use a function that another lowering traced."""

    def framed():
        return ops.frame(tf.zeros([2], tf.uint8), b"header", lowering="reference")

    for lowering in ("fused", "reference"):
        with use_lowering(lowering):
            graph = in_graph(framed)
        used = {node.op for function in graph.as_graph_def().library.function for node in function.node_def}
        assert used
        assert not [op for op in used if op.startswith("Fedplug>")]
