"""Registers graphs as functions in TensorFlow's eager context, and removes them.

The context has one namespace for the whole process, so names have a counter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import context as eager_context

from fedplug.tff.runtime.graphs.inline_calls import InlineFunction, forget

__all__ = ["new_name", "register", "register_copy", "unregister"]

_names = itertools.count()  # makes function names unique in this process


def new_name() -> str:
    """Returns an unused function name."""
    return f"fedplug_{next(_names)}"


def register(
    name: str,
    graph: tf.Graph,
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[tf.Tensor],
    library: Iterable[function_pb2.FunctionDef] = (),
    *,
    unused: Sequence[tf.Tensor] = (),
) -> list[str]:
    """Registers a graph and its library. Returns the registered names.

    Args:
        name: Name of the function.
        graph: A graph whose operations all become part of the function.
        inputs: Inputs of the function.
        outputs: Outputs of the function. None of the inputs.
        library: Definitions of the functions that the graph calls and the context does not have.
        unused: Placeholders without readers, which are left out.
    """
    outside = {tensor.op for tensor in (*inputs, *unused)}
    with graph._c_graph.get() as c_graph:
        function = pywrap_tf_session.TF_GraphToFunction_wrapper(
            c_graph,
            name,
            False,  # append no hash to the name
            [op._c_op for op in graph.get_operations() if op not in outside],
            [tensor._as_tf_output() for tensor in inputs],
            [tensor._as_tf_output() for tensor in outputs],
            [],  # output names: any
            [],  # control outputs: unneeded operations have been left out
            [],
            None,
            "",
        )
    context = eager_context.context()
    context.add_c_function(function)
    pywrap_tf_session.TF_DeleteFunction(function)
    names = [name]
    for definition in library:
        context.add_function_def(definition)
        names.append(definition.signature.name)
    return names


def register_copy(name: str) -> str:
    """Registers a copy of a function, with kernels of its own. Returns the name of the copy."""
    definition = eager_context.context().get_function_def(name)
    definition.signature.name = new_name()
    eager_context.context().add_function_def(definition)
    return str(definition.signature.name)


def unregister(names: Iterable[str], inlined: Iterable[InlineFunction]) -> None:
    """Removes functions and their kernels from the eager context."""
    for function in inlined:
        forget(function)
    for name in names:
        eager_context.context().remove_function(name)
