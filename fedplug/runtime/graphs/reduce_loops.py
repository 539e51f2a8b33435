"""Rewrites data set reductions into loops over an iterator: pure functions on graph protos.

TFF's client loops are by default `dataset.reduce(...)`. TensorFlow's `ReduceDataset` kernel instantiates the
reducing function again each time it runs, which for a training step costs far more than the step itself; the
body of a `While` is instantiated once. The rewrite is step for step the same: one element at a time, the next
one only after the function has returned.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import function_pb2

__all__ = ["draws_on", "iterate_reductions", "loop_output"]

_VARIANT = tf.variant.as_datatype_enum
_RESOURCE = tf.resource.as_datatype_enum


def iterate_reductions(graph_def: tf.compat.v1.GraphDef, prefix: str) -> dict[str, str]:
    """Replaces every `ReduceDataset` node of the graph itself by a `While` loop.

    Returns the loop for every replaced node; `loop_output` tells what stands for its outputs.

    Args:
        graph_def: The graph; changed in place.
        prefix: What to put before the names of new library functions.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    loops: dict[str, str] = {}
    for node in list(graph_def.node):
        if node.op != "ReduceDataset" or _draws_random_numbers(node, functions):
            continue
        reduction = _Reduction(node, functions, prefix)
        if reduction.elements:
            graph_def.library.function.extend([reduction.condition(), reduction.body()])
            graph_def.node.extend(reduction.nodes())
            loops[node.name] = reduction.loop
    kept = [node for node in graph_def.node if node.name not in loops]
    del graph_def.node[:]
    graph_def.node.extend(kept)
    for node in graph_def.node:
        node.input[:] = [loop_output(source, loops) for source in node.input]
    return loops


def loop_output(source: str, loops: dict[str, str]) -> str:
    """Returns what stands for an input of a node after `loops` replaced some nodes."""
    control, name = source.startswith("^"), source.removeprefix("^")
    node, _, index = name.partition(":")
    if node not in loops:
        return source
    return f"^{loops[node]}" if control else f"{loops[node]}:{int(index or 0) + 2}"


def draws_on(node: tf.compat.v1.NodeDef) -> bool:
    """Whether a node is a random op with a seed, whose state lives in the kernel: it goes on where it was."""
    return any(seed in node.attr and node.attr[seed].i for seed in ("seed", "seed2"))


def _draws_random_numbers(node: tf.compat.v1.NodeDef, functions: dict[str, function_pb2.FunctionDef]) -> bool:
    """Whether a node, or a function it calls, holds random ops with seeds.

    With an instance of the function per run, as the data set has it, every run draws the same numbers.
    """
    if draws_on(node):
        return True
    called = {node.op} | {
        reference.name for attr in node.attr.values() for reference in (attr.func, *attr.list.func)
    }
    return any(
        _draws_random_numbers(inner, functions)
        for name in called
        if name in functions
        for inner in functions[name].node_def
    )


class _Reduction:
    """The parts of one reduction.

    The loop carries the next element (an optional), the iterator, the state and the captured arguments, in
    that order, so that output `i` of the reduction is output `i + 2` of the loop.
    """

    def __init__(
        self, node: tf.compat.v1.NodeDef, functions: dict[str, function_pb2.FunctionDef], prefix: str
    ) -> None:
        self._node = node
        self._state = list(node.attr["Tstate"].list.type)
        self._captured = list(node.attr["Targuments"].list.type)
        arguments = [arg.type for arg in functions[node.attr["f"].func.name].signature.input_arg]
        self.elements = arguments[len(self._state) : len(arguments) - len(self._captured)]
        self.loop = f"{node.name}/loop"
        self._function_name = f"{prefix}{node.name.replace('/', '_')}"

    def nodes(self) -> list[tf.compat.v1.NodeDef]:
        """Returns the nodes that take the place of the reduction."""
        dataset, *values = [source for source in self._node.input if not source.startswith("^")]
        after = [source for source in self._node.input if source.startswith("^")]
        iterator, first = f"{self._node.name}/iterator", f"{self._node.name}/first"
        made = f"{self._node.name}/made"
        nodes = [
            self._typed(tf.compat.v1.NodeDef(name=iterator, op="AnonymousIteratorV3", input=after)),
            tf.compat.v1.NodeDef(name=made, op="MakeIterator", input=[dataset, iterator]),
            self._typed(
                tf.compat.v1.NodeDef(name=first, op="IteratorGetNextAsOptional", input=[iterator, f"^{made}"])
            ),
            tf.compat.v1.NodeDef(name=self.loop, op="While", input=[first, iterator, *values]),
        ]
        loop = nodes[-1]
        loop.attr["T"].list.type.extend([_VARIANT, _RESOURCE, *self._state, *self._captured])
        loop.attr["cond"].func.name = f"{self._function_name}_condition"
        loop.attr["body"].func.name = f"{self._function_name}_body"
        loop.attr["parallel_iterations"].i = 1
        shapes = loop.attr["output_shapes"].list.shape
        shapes.extend([tf.TensorShape([]).as_proto()] * 2)
        shapes.extend(self._node.attr["output_shapes"].list.shape)
        shapes.extend([tf.TensorShape(None).as_proto()] * len(self._captured))
        loop.attr["_lower_using_switch_merge"].b = True
        for node in nodes:
            node.device = self._node.device
        return nodes

    def condition(self) -> function_pb2.FunctionDef:
        """Returns the function that tells whether there is an element."""
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
        """Tells an iterator op the types of the elements; shapes are found at run time."""
        node.attr["output_types"].list.type.extend(self.elements)
        node.attr["output_shapes"].list.shape.extend([tf.TensorShape(None).as_proto()] * len(self.elements))
        return node
