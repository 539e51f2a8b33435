"""Keeps data sets on the CPU where TensorFlow has a GPU for the rest: a pure function on graph protos.

TensorFlow places a node that asks for nothing where it has a kernel, and iterators have kernels for the GPU
too, for pipelines that end in a copy to the device. Where a client's data is read must not depend on which of
them TensorFlow prefers.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

__all__ = ["keep_data_on_cpu"]

_CPU = "/device:CPU:0"


def keep_data_on_cpu(nodes: Iterable[tf.compat.v1.NodeDef]) -> None:
    """Places every node that makes, reads or passes on a data set, an iterator or an element not yet read.

    Args:
        nodes: Of a graph and of its library; changed in place. All others keep the device they ask for, or
            leave it to TensorFlow.
    """
    for node in nodes:
        if "Dataset" in node.op or "Iterator" in node.op or node.op.startswith("Optional"):
            node.device = _CPU
