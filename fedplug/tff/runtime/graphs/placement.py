"""Places the nodes of a graph on the device of a runtime: a pure function on graph protos.

TensorFlow places a node without a device wherever it has a kernel, and prefers a GPU even for a call on the
CPU. Iterators have GPU kernels for pipelines that end in a copy to the device, but a client's data must be
read on the CPU in any case.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from fedplug.tff.runtime.graphs.devices import FIRST_CPU

__all__ = ["is_on_cpu", "place", "place_of_output"]

_ONLY_ON_CPU = (tf.variant, tf.resource, tf.string)


def is_on_cpu(device: str) -> bool:
    """Returns whether a device name is that of a CPU."""
    return "/device:CPU:" in device


def place(nodes: Iterable[tf.compat.v1.NodeDef], device: str) -> None:
    """Places nodes that have no device.

    Args:
        nodes: Nodes of a graph and of its library, changed in place. All nodes that make, read or forward
            data sets, iterators or unread elements are placed on a CPU, whatever their device.
        device: A CPU for all nodes without a device. Otherwise TensorFlow places them.
    """
    cpu = device if is_on_cpu(device) else FIRST_CPU
    for node in nodes:
        if "Dataset" in node.op or "Iterator" in node.op or node.op.startswith("Optional"):
            node.device = cpu
        elif not node.device and is_on_cpu(device):
            node.device = device


def place_of_output(dtype: tf.DType, device: str) -> str:
    """Returns the device of an identity that ends a function. Empty if TensorFlow chooses."""
    if is_on_cpu(device):
        return device
    return FIRST_CPU if dtype in _ONLY_ON_CPU else ""
