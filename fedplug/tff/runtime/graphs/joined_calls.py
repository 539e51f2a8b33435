"""Makes one function of several that are called one after the other.

A call costs TensorFlow as much as a dozen small operations. What calls functions is traced once, with symbols
in the place of tensors; the functions become calls within one graph, in whose place TensorFlow puts their
operations. So the operations are the same, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from fedplug.tff.runtime.graphs.cancellation import Cancellation
from fedplug.tff.runtime.graphs.registered_function import RegisteredFunction
from fedplug.tff.runtime.graphs.registration import new_name, register

__all__ = ["JoinedFunction", "NotJoinable", "needs_values"]


class NotJoinable(BaseException):
    """Something that is traced cannot be part of a graph. Not an error: who handles those lets it pass."""


def needs_values() -> None:
    """What looks at values calls this first.

    Raises:
        NotJoinable: There are only symbols, as a graph is being built.
    """
    if not tf.executing_eagerly():
        raise NotJoinable


class _Graph(tf.__internal__.FuncGraph):
    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> Any:
        """Refuses what is not made of the function's arguments: it would be the same in every later call."""
        if getattr(tensor, "graph", None) is not self:
            raise NotJoinable
        return tensor


class JoinedFunction:
    """A function of flat lists of tensors. Calls may run concurrently.

    Args:
        make: Calls functions, as `GraphFunction` and TensorFlow's operations are; always the same ones.
        dtypes: Of the arguments.

    Raises:
        NotJoinable: Something in `make` cannot be part of a graph, or nothing would be gained.
    """

    def __init__(
        self, make: Callable[[list[tf.Tensor]], list[tf.Tensor]], dtypes: Sequence[tf.DType]
    ) -> None:
        name = new_name()
        with _Graph(name).as_default() as graph:
            arguments = [tf.compat.v1.placeholder(dtype) for dtype in dtypes]
            # Through an identity, because a function's output must not be one of its inputs.
            outputs = [tf.identity(result) for result in make(arguments)]
        kinds = [operation.type for operation in graph.get_operations()]
        calls = kinds.count("StatefulPartitionedCall")
        if calls == 0 or calls + kinds.count("AddV2") == 1:
            raise NotJoinable  # one call takes the place of one
        self._used = [i for i, argument in enumerate(arguments) if argument.consumers()]
        inputs = [arguments[i] for i in self._used]
        names = register(name, graph, inputs, outputs, unused=arguments)
        # Exclusive, because there may be kernels that read data sets.
        self._function = RegisteredFunction(names, inputs, outputs, inline=True, exclusive=True)

    def __call__(
        self, arguments: Sequence[tf.Tensor], cancel: Cancellation, *, one_thread: bool = False
    ) -> list[tf.Tensor]:
        """Calls the function; raises what the functions in it raise."""
        return self._function([arguments[i] for i in self._used], cancel, one_thread=one_thread)
