"""Calls functions of the eager context in the caller's thread, with `Fedplug>CallInline`.

A call by name runs on TensorFlow's threads and changes threads within. For a client of a small model, that
costs more than its training. Iterators have threads of their own, so they get the kernels of
`csrc/tf/inline_iterators.cc`. Results are the same. Functions are called by name where a runtime
works on another device than the first CPU, or if there is no op library.

This module uses private parts of TensorFlow 2.14: `execute_with_cancellation`, and the eager runtime's cache
of kernels, each in a function whose name has its numbers of inputs and outputs.
"""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.eager import cancellation, execute
from tensorflow.python.eager import context as eager_context

from fedplug.ops.lowering import resolve_lowering
from fedplug.tff.runtime.graphs.devices import FIRST_CPU, current_device
from fedplug.tff.runtime.graphs.private_calls import all_nodes
from fedplug.tff.runtime.graphs.reduce_loops import called_by

__all__ = ["InlineFunction", "call_inline", "can_call_inline", "forget", "inlined", "iterate_inline"]

_OP = "Fedplug>CallInline"
_ITERATING = ("MakeIterator", "IteratorGetNext", "IteratorGetNextAsOptional")
_LABEL = b"fedplug_inline"  # the label of kernels that need no thread

_counting = threading.Lock()
_running = 0
_forgotten: collections.deque[str] = collections.deque()  # prefixes of kernels to drop


class InlineFunction:
    """The data of an inline call of one function.

    Args:
        name: Name of the function in the eager context.
        inputs: TensorFlow's dtype numbers of the inputs.
        outputs: TensorFlow's dtype numbers of the outputs.
    """

    def __init__(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.num_outputs = len(outputs)
        self._attributes = ("Tin", list(inputs), "Tout", list(outputs), "f", name, "one_thread")
        self.kernels = f"__wrapped__{_OP}_Tin_{len(inputs)}_Tout_{len(outputs)}_"

    def attributes(self, one_thread: bool) -> tuple[object, ...]:
        """Returns the attributes of a call."""
        return (*self._attributes, one_thread)


def can_call_inline() -> bool:
    """Returns whether this thread, on its device, can call functions inline. Loads the op library."""
    return current_device() == FIRST_CPU and _has_op()


@functools.cache
def _has_op() -> bool:
    return resolve_lowering("auto") == "fused"


def call_inline(
    function: InlineFunction,
    inputs: Sequence[tf.Tensor],
    one_thread: bool,
    manager: cancellation.CancellationManager,
) -> list[tf.Tensor]:
    """Calls a function.

    Args:
        function: The function.
        inputs: One tensor per input, of the input's dtype.
        one_thread: Whether its operations also run without TensorFlow's threads.
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


def inlined(
    function: tf.types.experimental.ConcreteFunction,
) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Returns a callable for a concrete function that captures nothing. The function is never released.

    Args:
        function: A result of `get_concrete_function`. It takes tensors and returns a tensor or a list.
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
        assert function is not None  # keeps the function in the eager context
        return call_inline(inline, inputs, False, cancellation.CancellationManager())

    return call


def iterate_inline(graph_def: tf.compat.v1.GraphDef) -> None:
    """Makes nodes that create and read iterators run in the calling thread.

    This is only for functions that are called inline: called by name, they would block one of TensorFlow's
    few threads. Functions of data sets run on those threads and keep their nodes, because the producer of an
    element may need the thread that waits for it.

    Args:
        graph_def: A graph with its library, changed in place.
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
    """Lets TensorFlow drop a function's kernels, at the end of a call when no other call is running.

    Functions with as many inputs and outputs lose their kernels too, and get new ones when called.
    """
    _forgotten.append(function.kernels)  # no lock: garbage collection may call this at any time


def _drop_kernels() -> None:
    kernels = set()
    while _forgotten:
        kernels.add(_forgotten.popleft())
    context = eager_context.context()
    for name in context.list_function_names():
        if name.startswith(tuple(kernels)):
            context.remove_function(name)
