"""Rewrites data set reductions into loops over an iterator: pure functions on graph protos.

TFF's client loops are by default `dataset.reduce(...)`. TensorFlow's `ReduceDataset` kernel instantiates the
reducing function in each run, which costs far more than a training step. The rewrite runs the same steps:
one element at a time, and the next one only after the function has returned. The loop is
`Fedplug>ReduceInline` in functions that are called inline, else a `While`, which both instantiate it once.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tensorflow.core.framework import function_pb2

__all__ = ["Loop", "called_by", "draws_on", "iterate_reductions", "loop_output"]

_VARIANT = tf.variant.as_datatype_enum
_RESOURCE = tf.resource.as_datatype_enum


class Loop(NamedTuple):
    """The loop that replaces a reduction: a node, and the index of its first state output."""

    name: str
    first: int


def iterate_reductions(
    graph_def: tf.compat.v1.GraphDef, prefix: str, *, inline: bool = False
) -> dict[str, Loop]:
    """Replaces every `ReduceDataset` node of the graph, but not of its library, by a loop.

    Returns the loop for every replaced node, for `loop_output`.

    Args:
        graph_def: The graph, changed in place.
        prefix: A prefix for the names of new library functions.
        inline: Whether the graph is a function that is called inline.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    loops: dict[str, Loop] = {}
    for node in list(graph_def.node):
        if node.op != "ReduceDataset" or _draws_random_numbers(node, functions):
            continue
        reduction = _Reduction(node, functions, prefix)
        if not reduction.elements:
            continue
        if inline:
            graph_def.node.extend(reduction.inline_nodes())
            loops[node.name] = Loop(reduction.loop, 0)
        else:
            graph_def.library.function.extend([reduction.condition(), reduction.body()])
            graph_def.node.extend(reduction.nodes())
            loops[node.name] = Loop(reduction.loop, 2)
    kept = [node for node in graph_def.node if node.name not in loops]
    del graph_def.node[:]
    graph_def.node.extend(kept)
    for node in graph_def.node:
        node.input[:] = [loop_output(source, loops) for source in node.input]
    return loops


def loop_output(source: str, loops: dict[str, Loop]) -> str:
    """Returns the tensor that replaces the input `source` of a node, given the loops."""
    control, name = source.startswith("^"), source.removeprefix("^")
    node, _, index = name.partition(":")
    if node not in loops:
        return source
    loop = loops[node]
    return f"^{loop.name}" if control else f"{loop.name}:{int(index or 0) + loop.first}"


def draws_on(node: tf.compat.v1.NodeDef) -> bool:
    """Returns whether a node is a random op with a seed, whose kernel keeps its state between runs."""
    return any(seed in node.attr and node.attr[seed].i for seed in ("seed", "seed2"))


def called_by(node: tf.compat.v1.NodeDef) -> set[str]:
    """Returns a set of names that includes those of all functions that a node calls."""
    return {node.op} | {
        reference.name for attr in node.attr.values() for reference in (attr.func, *attr.list.func)
    }


def _draws_random_numbers(node: tf.compat.v1.NodeDef, functions: dict[str, function_pb2.FunctionDef]) -> bool:
    """Returns whether a node, or a function it calls, has random ops with seeds.

    The data set makes an instance of the function per run, so every run draws the same numbers.
    """
    if draws_on(node):
        return True
    return any(
        _draws_random_numbers(inner, functions)
        for name in called_by(node)
        if name in functions
        for inner in functions[name].node_def
    )


class _Reduction:
    """The parts of one reduction.

    A `While` carries the next element (an optional), the iterator, the state and the captured arguments, in
    that order, so that output `i` of the reduction is output `i + 2` of the loop.
    """

    def __init__(
        self, node: tf.compat.v1.NodeDef, functions: dict[str, function_pb2.FunctionDef], prefix: str
    ) -> None:
        self._node = node
        self._dataset, *self._values = [source for source in node.input if not source.startswith("^")]
        self._after = [source for source in node.input if source.startswith("^")]
        self._state = list(node.attr["Tstate"].list.type)
        self._captured = list(node.attr["Targuments"].list.type)
        arguments = [arg.type for arg in functions[node.attr["f"].func.name].signature.input_arg]
        self.elements = arguments[len(self._state) : len(arguments) - len(self._captured)]
        self.loop = f"{node.name}/loop"
        self._function_name = f"{prefix}{node.name.replace('/', '_')}"

    def inline_nodes(self) -> list[tf.compat.v1.NodeDef]:
        """Returns the nodes that replace the reduction in a function that is called inline."""
        iterator, made = self._iterator()
        loop = tf.compat.v1.NodeDef(
            name=self.loop, op="Fedplug>ReduceInline", input=[iterator.name, *self._values, f"^{made.name}"]
        )
        loop.attr["f"].func.CopyFrom(self._node.attr["f"].func)
        loop.attr["Tstate"].list.type.extend(self._state)
        loop.attr["Tcaptured"].list.SetInParent()  # an empty list if there are none
        loop.attr["Tcaptured"].list.type.extend(self._captured)
        return self._placed([iterator, made, loop])

    def nodes(self) -> list[tf.compat.v1.NodeDef]:
        """Returns the nodes that replace the reduction elsewhere. They call `condition` and `body`."""
        iterator, made = self._iterator()
        first = self._typed(
            tf.compat.v1.NodeDef(
                name=f"{self._node.name}/first",
                op="IteratorGetNextAsOptional",
                input=[iterator.name, f"^{made.name}"],
            )
        )
        loop = tf.compat.v1.NodeDef(
            name=self.loop, op="While", input=[first.name, iterator.name, *self._values]
        )
        loop.attr["T"].list.type.extend([_VARIANT, _RESOURCE, *self._state, *self._captured])
        loop.attr["cond"].func.name = f"{self._function_name}_condition"
        loop.attr["body"].func.name = f"{self._function_name}_body"
        loop.attr["parallel_iterations"].i = 1
        shapes = loop.attr["output_shapes"].list.shape
        shapes.extend([tf.TensorShape([]).as_proto()] * 2)
        shapes.extend(self._node.attr["output_shapes"].list.shape)
        shapes.extend([tf.TensorShape(None).as_proto()] * len(self._captured))
        loop.attr["_lower_using_switch_merge"].b = True
        return self._placed([iterator, made, first, loop])

    def _iterator(self) -> tuple[tf.compat.v1.NodeDef, tf.compat.v1.NodeDef]:
        """Returns an iterator, and the node that initializes it."""
        iterator = self._typed(
            tf.compat.v1.NodeDef(
                name=f"{self._node.name}/iterator", op="AnonymousIteratorV3", input=self._after
            )
        )
        made = tf.compat.v1.NodeDef(
            name=f"{self._node.name}/made", op="MakeIterator", input=[self._dataset, iterator.name]
        )
        return iterator, made

    def _placed(self, nodes: list[tf.compat.v1.NodeDef]) -> list[tf.compat.v1.NodeDef]:
        for node in nodes:
            node.device = self._node.device
        return nodes

    def condition(self) -> function_pb2.FunctionDef:
        """Returns the function that says whether there is an element."""
        function = self._function("condition")
        function.signature.output_arg.add(name="go_on", type=tf.bool.as_datatype_enum)
        function.node_def.add(name="has", op="OptionalHasValue", input=["element"])
        function.ret["go_on"] = "has:has_value:0"
        return function

    def body(self) -> function_pb2.FunctionDef:
        """Returns the function that reduces one element and fetches the next."""
        function = self._function("body")
        names = [arg.name for arg in function.signature.input_arg]
        state, captured = names[2 : 2 + len(self._state)], names[2 + len(self._state) :]
        for arg in function.signature.input_arg:
            function.signature.output_arg.add(name=f"{arg.name}_out", type=arg.type)
        function.signature.is_stateful = True

        self._typed(function.node_def.add(name="get", op="OptionalGetValue", input=["element"]))
        components = [f"get:components:{index}" for index in range(len(self.elements))]
        step = function.node_def.add(
            name="step", op="StatefulPartitionedCall", input=[*state, *components, *captured]
        )
        step.attr["f"].func.CopyFrom(self._node.attr["f"].func)
        step.attr["Tin"].list.type.extend([*self._state, *self.elements, *self._captured])
        step.attr["Tout"].list.type.extend(self._state)
        for text in ("config", "config_proto", "executor_type"):
            step.attr[text].s = b""
        self._typed(
            function.node_def.add(name="next", op="IteratorGetNextAsOptional", input=["iterator", "^step"])
        )
        function.ret["element_out"] = "next:optional:0"
        function.ret["iterator_out"] = "iterator"
        for index, name in enumerate(state):
            function.ret[f"{name}_out"] = f"step:output:{index}"
        for name in captured:
            function.ret[f"{name}_out"] = name
        return function

    def _function(self, role: str) -> function_pb2.FunctionDef:
        function = function_pb2.FunctionDef()
        function.signature.name = f"{self._function_name}_{role}"
        arguments = [("element", _VARIANT), ("iterator", _RESOURCE)]
        arguments += [(f"state_{index}", dtype) for index, dtype in enumerate(self._state)]
        arguments += [(f"captured_{index}", dtype) for index, dtype in enumerate(self._captured)]
        for name, dtype in arguments:
            function.signature.input_arg.add(name=name, type=dtype)
        return function

    def _typed(self, node: tf.compat.v1.NodeDef) -> tf.compat.v1.NodeDef:
        """Gives an iterator op the types of the elements. Shapes are found at run time."""
        node.attr["output_types"].list.type.extend(self.elements)
        node.attr["output_shapes"].list.shape.extend([tf.TensorShape(None).as_proto()] * len(self.elements))
        return node
