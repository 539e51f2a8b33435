"""The TensorFlow device of a runtime: all of its tensors and operations are there, whatever is visible.

TensorFlow keeps the device of eager operations per thread. A runtime sets it in its own threads and around
conversions. This module uses one private part of TensorFlow 2.14, the eager context's device name.

TensorFlow places a node without a device wherever it has a kernel, and prefers a GPU even for a call on the
CPU. Iterators have GPU kernels for pipelines that end in a copy to the device, but a client's data must be
read on the CPU in any case. So `place` sets the devices of nodes, as a pure function on graph protos.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from fedplug.errors import ConfigError

__all__ = [
    "FIRST_CPU",
    "RuntimeDevice",
    "current_device",
    "for_data_sets",
    "has_gpu",
    "hide_gpus",
    "is_on_cpu",
    "place",
    "place_of_output",
]

FIRST_CPU = "/device:CPU:0"

_ONLY_ON_CPU = (tf.variant, tf.resource, tf.string)


class RuntimeDevice:
    """A device that TensorFlow has.

    Args:
        name: ``"CPU"``, ``"GPU"``, or one of these with a number: ``"GPU:1"``.

    Raises:
        ConfigError: The name is not of this form, or TensorFlow has no such device.
    """

    def __init__(self, name: str = "CPU") -> None:
        parts = re.fullmatch(r"(CPU|GPU)(?::(\d+))?", name)
        if parts is None:
            raise ConfigError(f"device is {name!r}; it must be 'CPU' or 'GPU', or for instance 'GPU:1'")
        self.name = f"/device:{parts[1]}:{int(parts[2] or 0)}"
        # Listing devices starts TensorFlow, and there is always a CPU:0.
        if self.name == FIRST_CPU:
            return
        known = [f"{device.device_type}:{device.name.rpartition(':')[2]}" for device in _logical_devices()]
        if self.name.removeprefix("/device:") not in known:
            raise ConfigError(f"device is {name!r}, but TensorFlow has only {', '.join(known)}")

    def scope(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which this thread works on the device."""
        if self.name == FIRST_CPU and not has_gpu():
            return contextlib.nullcontext()  # the device anyway; entering a scope takes microseconds
        scope: contextlib.AbstractContextManager[None] = tf.device(self.name)
        return scope

    def enter(self) -> None:
        """Lets this thread work on the device until it ends."""
        self.scope().__enter__()


def for_data_sets() -> contextlib.AbstractContextManager[None]:
    """Returns a context for making and reading data sets: on the CPU, whatever the device of the runtime.

    On a GPU, TensorFlow 2.14 runs steps of a pipeline on it with elements in host memory. They read invalid
    addresses, and TensorFlow ends the process.
    """
    return RuntimeDevice().scope()


def has_gpu() -> bool:
    """Returns whether TensorFlow may use a GPU in this process. Does not start TensorFlow."""
    return bool(tf.config.get_visible_devices("GPU"))


def current_device() -> str:
    """Returns the device of this thread, such as ``"/device:CPU:0"``. Empty if TensorFlow chooses."""
    name = eager_context.context().device_name or ""
    if not name and not has_gpu():
        return FIRST_CPU
    return f"/device:{name.rpartition('/device:')[2]}" if name else ""


def hide_gpus() -> None:
    """Keeps TensorFlow from using GPUs, and their memory, in this process. Too late once it has started."""
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices([], "GPU")


def _logical_devices() -> list[tf.config.LogicalDevice]:
    return [device for kind in ("CPU", "GPU") for device in tf.config.list_logical_devices(kind)]


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
