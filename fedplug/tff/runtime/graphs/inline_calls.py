"""Calls functions of the eager context in the thread of the caller, by `Fedplug>CallInline`.

A call by name goes to TensorFlow's threads, and from one to the other within: for a client of a small model
that costs more than its training. Iterators have threads of their own, which go on with what comes after an
element: they are given the kernels of `csrc/tf/kernels/inline_iterators.cc`. Results are the same. Where
TensorFlow sees a GPU, or there is no op library, functions are called by name.

Uses private parts of TensorFlow 2.14: `execute_with_cancellation`, and how the eager runtime keeps the kernel
of an op, within a function of its own whose name tells the numbers of inputs and outputs.
"""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import cancellation, execute
from tensorflow.python.eager import context as eager_context

from fedplug.ops.lowering import resolve_lowering
from fedplug.tff.runtime.graphs.private_calls import all_nodes
from fedplug.tff.runtime.graphs.reduce_loops import called_by

__all__ = ["InlineFunction", "call_inline", "can_call_inline", "forget", "inlined", "iterate_inline"]

_OP = "Fedplug>CallInline"
_ITERATING = ("MakeIterator", "IteratorGetNext", "IteratorGetNextAsOptional")
_LABEL = b"fedplug_inline"  # of the kernels that need no thread

_counting = threading.Lock()
_running = 0
_forgotten: collections.deque[str] = collections.deque()  # what kernels to drop begin with


class InlineFunction:
    """How to call a function.

    Args:
        name: Of the function in the eager context.
        inputs: The dtypes of its inputs, as TensorFlow numbers them.
        outputs: The same of its outputs.
    """

    def __init__(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.num_outputs = len(outputs)
        self._attributes = ("Tin", list(inputs), "Tout", list(outputs), "f", name, "one_thread")
        self.kernels = f"__wrapped__{_OP}_Tin_{len(inputs)}_Tout_{len(outputs)}_"

    def attributes(self, one_thread: bool) -> tuple[Any, ...]:
        """Those of a call."""
        return (*self._attributes, one_thread)


@functools.cache
def can_call_inline() -> bool:
    """Whether functions can be called so in this process; loads the op library to find out."""
    return not tf.config.list_physical_devices("GPU") and resolve_lowering("auto") == "fused"


def call_inline(
    function: InlineFunction, inputs: Sequence[tf.Tensor], one_thread: bool, manager: Any
) -> list[tf.Tensor]:
    """Calls a function.

    Args:
        function: It.
        inputs: As many as it has, of its dtypes.
        one_thread: Whether its operations do without TensorFlow's threads, too.
        manager: A `CancellationManager` for this call.
    """
    global _running
    with _counting:
        _running += 1
    try:
        outputs: list[tf.Tensor] = execute.execute_with_cancellation(
            _OP,
            function.num_outputs,
            inputs,
            function.attributes(one_thread),
            eager_context.context(),
            manager,
        )
        return outputs
    finally:
        with _counting:
            _running -= 1
            if _forgotten and not _running:
                _drop_kernels()


def inlined(function: Any) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """How to call a concrete function that captures nothing and lives as long as the process.

    Args:
        function: From `get_concrete_function`; it takes tensors and returns one, or a list of them.
    """
    if not can_call_inline():
        return lambda inputs: tf.nest.flatten(function(*inputs))
    signature = function.function_def.signature
    inline = InlineFunction(
        signature.name,
        [argument.type for argument in signature.input_arg],
        [argument.type for argument in signature.output_arg],
    )

    def call(inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        assert function is not None  # it is in the eager context as long as somebody holds it
        return call_inline(inline, inputs, False, cancellation.CancellationManager())

    return call


def iterate_inline(graph_def: tf.compat.v1.GraphDef) -> None:
    """Lets nodes that make iterators, and ask them for elements, do so in the thread that they are called in.

    For functions that are called inline: by name, TensorFlow would wait in one of its few threads. The
    functions of data sets run there, too, and stay as they are: who makes the element may need the thread
    that waits.

    Args:
        graph_def: A graph with its library; changed in place.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    todo = [node for node in all_nodes(graph_def) if "Dataset" in node.op]
    while todo:
        for name in called_by(todo.pop()) & functions.keys():
            todo.extend(functions.pop(name).node_def)
    for nodes in (graph_def.node, *(function.node_def for function in functions.values())):
        for node in nodes:
            if node.op in _ITERATING:
                node.attr["_kernel"].s = _LABEL


def forget(function: InlineFunction) -> None:
    """Lets TensorFlow drop what it keeps of a function, at the end of a call when no other is under way.

    Functions with as many inputs and outputs lose their kernels, too, and get new ones when they are called.
    """
    _forgotten.append(function.kernels)  # no lock: garbage collection calls this, at any time


def _drop_kernels() -> None:
    kernels = set()
    while _forgotten:
        kernels.add(_forgotten.popleft())
    context = eager_context.context()
    for name in context.list_function_names():
        if name.startswith(tuple(kernels)):
            context.remove_function(name)
