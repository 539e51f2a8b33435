"""Keeps data sets on the CPU if TensorFlow has a GPU: a pure function on graph protos.

TensorFlow places a node without a device wherever it has a kernel, and iterators have GPU kernels for
pipelines that end in a copy to the device. A client's data must be read on the CPU in any case.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

__all__ = ["keep_data_on_cpu"]

_CPU = "/device:CPU:0"


def keep_data_on_cpu(nodes: Iterable[tf.compat.v1.NodeDef]) -> None:
    """Places all nodes that make, read or forward data sets, iterators or unread elements on the CPU.

    Args:
        nodes: Nodes of a graph and of its library; changed in place. Other nodes keep their device, or let
            TensorFlow choose.
    """
    for node in nodes:
        if "Dataset" in node.op or "Iterator" in node.op or node.op.startswith("Optional"):
            node.device = _CPU
