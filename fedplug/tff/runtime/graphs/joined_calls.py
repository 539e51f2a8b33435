"""Joins functions that are called one after the other into one function.

A call costs TensorFlow as much as a dozen small operations. The calling code is traced once with symbolic
tensors, so that the functions become calls in one graph, and TensorFlow inlines their operations. The
operations are the same, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from fedplug.tff.runtime.graphs.datasets_with_state import for_one_reader, with_state_apart
from fedplug.tff.runtime.graphs.devices import current_device
from fedplug.tff.runtime.graphs.registered_function import (
    Cancellation,
    RegisteredFunction,
    new_name,
    register,
)

__all__ = ["JoinedFunction", "NotJoinable", "needs_values"]


class NotJoinable(BaseException):
    """A traced step cannot be part of a graph. It is no `Exception`, so that error handlers let it pass."""


def needs_values() -> None:
    """Must be called before code that reads the values of tensors.

    Raises:
        NotJoinable: A graph is being built, so tensors have no values.
    """
    if not tf.executing_eagerly():
        raise NotJoinable


class _Graph(tf.__internal__.FuncGraph):
    def capture(
        self, tensor: tf.Tensor, name: str | None = None, shape: tf.TensorShape | None = None
    ) -> tf.Tensor:
        """Refuses tensors from outside of the function, whose values would be frozen for later calls."""
        if getattr(tensor, "graph", None) is not self:
            raise NotJoinable
        return tensor


class JoinedFunction:
    """A function of flat lists of tensors. Calls may run concurrently.

    Args:
        make: A function that always calls the same `GraphFunction`s and TensorFlow operations.
        dtypes: Dtypes of the arguments.

    Raises:
        NotJoinable: A part of `make` cannot be part of a graph, or `make` has at most one call.
    """

    def __init__(
        self, make: Callable[[list[tf.Tensor]], list[tf.Tensor]], dtypes: Sequence[tf.DType]
    ) -> None:
        name = new_name()
        with _Graph(name).as_default() as graph, tf.device(current_device()):
            arguments = [tf.compat.v1.placeholder(dtype) for dtype in dtypes]
            # An identity, because a function's output must not be one of its inputs.
            outputs = [tf.identity(result) for result in make(arguments)]
        kinds = [operation.type for operation in graph.get_operations()]
        calls = kinds.count("StatefulPartitionedCall")
        if calls == 0 or calls + kinds.count("AddV2") == 1:
            raise NotJoinable  # one call would replace one call
        if any(map(_has_several_readers, graph.get_operations())):
            raise NotJoinable  # each must get a data set with state of its own
        self._used = [i for i, argument in enumerate(arguments) if argument.consumers()]
        inputs = [arguments[i] for i in self._used]
        names = register(name, graph, inputs, outputs, unused=arguments)
        # Exclusive, because it may have kernels that read data sets.
        self._function = RegisteredFunction(names, inputs, outputs, inline=True, exclusive=True)

    def __call__(
        self, arguments: Sequence[tf.Tensor], cancel: Cancellation, *, one_thread: bool = False
    ) -> list[tf.Tensor]:
        """Calls the function, and raises the errors of the functions in it."""
        inputs = [for_one_reader(arguments[i]) for i in self._used]
        results = self._function(inputs, cancel, one_thread=one_thread)
        return [with_state_apart(result) if result.dtype == tf.variant else result for result in results]


def _has_several_readers(operation: tf.Operation) -> bool:
    """Returns whether an operation makes a data set that is used more than once."""
    return any(
        sum(source is made for reader in made.consumers() for source in reader.inputs) > 1
        for made in operation.outputs
        if made.dtype == tf.variant
    )
