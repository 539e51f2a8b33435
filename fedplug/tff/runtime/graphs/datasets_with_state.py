"""Data sets that keep state. Every reader gets a copy, which begins in the state that the caller made.

A shuffle with a seed counts its epochs, a cache fills, and variables, tables and random generators that a
data set captures change while it is read. TFF's stock runtime serializes a data set for every call of a
TensorFlow function. Passed by reference, it would bring the state of one call, client or round into the next,
in the order of threads.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from fedplug.errors import ArgumentError
from fedplug.tff.runtime.graphs.devices import for_data_sets
from fedplug.tff.runtime.graphs.private_calls import all_nodes

__all__ = ["DatasetWithState", "deserialized", "for_one_reader", "serialized", "with_state_apart"]

# TensorFlow makes these anew if it finds no resource of the name, and serializes only their names.
_MADE_ANEW = ("SeedGenerator", "MemoryCache")
_UNKNOWN = "a name that no resource has"


class DatasetWithState:
    """A data set that keeps state. Nothing reads it except through `copy`.

    Args:
        variant: The data set.
        fused: Whether copies fuse ``shuffle`` and ``repeat``, see `with_state_apart`.

    Attributes:
        dtype: The dtype of the copies.
    """

    dtype = tf.variant

    def __init__(self, variant: tf.Tensor, fused: bool) -> None:
        self._variant = variant
        self._fused = fused

    def copy(self) -> tf.Tensor:
        """Returns a data set that shares no state with this one."""
        with for_data_sets():
            return tf.raw_ops.DatasetFromGraph(graph_def=self.serialize())

    def serialize(self) -> bytes:
        """Returns the graph of the data set, with the present values of variables and tables."""
        graph = _graph_of(self._variant)
        for handle in _handles(graph):
            handle.name = _UNKNOWN
        if self._fused:
            _fuse_shuffle_and_repeat(graph)
        data: bytes = graph.SerializeToString()
        return data


def with_state_apart(variant: tf.Tensor, *, fused: bool = False) -> tf.Tensor | DatasetWithState:
    """Returns a `DatasetWithState` if the data set keeps state, else the argument.

    Args:
        variant: A data set.
        fused: Whether to fuse ``shuffle`` and ``repeat``, as TensorFlow's default optimizations do: a second
            iteration then has another order. It is needed if the data set's options disable them.

    Raises:
        ArgumentError: The data set captures state that cannot be copied, such as the position of an iterator.
    """
    return _apart(variant, _graph_of(variant), fused)


def for_one_reader(value: tf.Tensor | DatasetWithState) -> tf.Tensor:
    """Returns a copy of a `DatasetWithState`, and any other value as it is."""
    return value.copy() if isinstance(value, DatasetWithState) else value


def serialized(value: tf.Tensor | DatasetWithState) -> bytes:
    """Returns the serialized graph of a result of `with_state_apart`."""
    if isinstance(value, DatasetWithState):
        return value.serialize()
    data: bytes = tf.raw_ops.DatasetToGraphV2(input_dataset=value).numpy()
    return data


def deserialized(data: bytes) -> tf.Tensor | DatasetWithState:
    """Undoes `serialized`, in any process."""
    return _apart(tf.raw_ops.DatasetFromGraph(graph_def=data), tf.compat.v1.GraphDef.FromString(data), False)


def _apart(variant: tf.Tensor, graph: tf.compat.v1.GraphDef, fused: bool) -> tf.Tensor | DatasetWithState:
    handles = list(_handles(graph))
    for handle in handles:
        if not any(kind in handle.maybe_type_name for kind in _MADE_ANEW):
            raise ArgumentError(
                f"a data set captures a resource of type {handle.maybe_type_name!r}, which cannot be copied, "
                "so its elements would depend on the order in which clients read them; make it inside the "
                "data set's functions, or pass its elements as a data set"
            )
    state = handles or any("shared_name" in node.attr for node in all_nodes(graph))
    return DatasetWithState(variant, fused) if state else variant


def _graph_of(variant: tf.Tensor) -> tf.compat.v1.GraphDef:
    with for_data_sets():
        return tf.compat.v1.GraphDef.FromString(tf.raw_ops.DatasetToGraphV2(input_dataset=variant).numpy())


def _handles(graph: tf.compat.v1.GraphDef) -> Iterator[tf.compat.v1.ResourceHandle]:
    """Yields the handles of resources outside of the graph."""
    for node in graph.node:
        if node.op == "Const" and node.attr["dtype"].type == tf.resource.as_datatype_enum:
            yield from node.attr["value"].tensor.resource_handle_val


def _fuse_shuffle_and_repeat(graph: tf.compat.v1.GraphDef) -> None:
    """Replaces every ``RepeatDataset`` of a ``ShuffleDatasetV3`` by one node."""
    nodes = {node.name: node for node in graph.node}
    for node in graph.node:
        source = nodes[node.input[0]] if node.op == "RepeatDataset" else node
        if source.op == "ShuffleDatasetV3" and source is not node:
            elements, size, seed, seed2, generator = source.input
            node.input[:] = [elements, size, seed, seed2, node.input[1], generator]
            node.op = "ShuffleAndRepeatDatasetV2"
            node.attr["reshuffle_each_iteration"].CopyFrom(source.attr["reshuffle_each_iteration"])
