"""Puts graphs into TensorFlow's eager context as functions, and takes them out again.

The context has one namespace for the whole process: names are counted.
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

_names = itertools.count()  # no two functions of this process have one name


def new_name() -> str:
    """Returns a name that no function has."""
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
    """Puts a graph and its library into the eager context; returns the names it put there.

    Args:
        name: Of the function.
        graph: All of its operations become part of the function.
        inputs: What the function is given.
        outputs: What it returns; none of the inputs.
        library: The definitions of the functions that the graph calls, but those that are there already.
        unused: Placeholders that nothing reads, which do not become part of it.
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
            [],  # control outputs: what the results do not need has been left out
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
    """Registers a function once more under another name, which it returns; kernels belong to a name."""
    definition = eager_context.context().get_function_def(name)
    definition.signature.name = new_name()
    eager_context.context().add_function_def(definition)
    return str(definition.signature.name)


def unregister(names: Iterable[str], inlined: Iterable[InlineFunction]) -> None:
    """Takes functions, with their kernels, out of the eager context."""
    for function in inlined:
        forget(function)
    for name in names:
        eager_context.context().remove_function(name)
