"""Makes one function of several that are called one after the other.

A call costs TensorFlow as much as a dozen small operations. What calls functions is traced once, with symbols
in the place of tensors; the functions become calls within one graph, in whose place TensorFlow puts their
operations. So the operations are the same, and so are the bits.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from fedplug.runtime.graphs.cancellation import Cancellation
from fedplug.runtime.graphs.inline_calls import InlineFunction, call_inline
from fedplug.runtime.graphs.registration import new_name, register, register_copy, unregister

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
        self._name = new_name()
        with _Graph(self._name).as_default() as graph:
            arguments = [tf.compat.v1.placeholder(dtype) for dtype in dtypes]
            # Through an identity, because a function's output must not be one of its inputs.
            outputs = [tf.identity(result) for result in make(arguments)]
        kinds = [operation.type for operation in graph.get_operations()]
        calls = kinds.count("StatefulPartitionedCall")
        if calls == 0 or calls + kinds.count("AddV2") == 1:
            raise NotJoinable  # one call takes the place of one
        self._used = [i for i, argument in enumerate(arguments) if argument.consumers()]
        inputs = [arguments[i] for i in self._used]
        self._dtypes = [[tensor.dtype.as_datatype_enum for tensor in side] for side in (inputs, outputs)]
        # Everything to take out of the eager context again.
        self._registered = register(self._name, graph, inputs, outputs, unused=arguments)
        self._inlined: list[InlineFunction] = []
        weakref.finalize(self, unregister, self._registered, self._inlined).atexit = False
        self._idle = [self._inline(self._name)]

    def __call__(
        self, arguments: Sequence[tf.Tensor], cancel: Cancellation, *, one_thread: bool = False
    ) -> list[tf.Tensor]:
        """Calls the function; raises what the functions in it raise."""
        try:
            # Of its own for every caller: kernels that read data sets take one at a time.
            copy = self._idle.pop()
        except IndexError:
            self._registered.append(register_copy(self._name))
            copy = self._inline(self._registered[-1])
        inputs = [arguments[i] for i in self._used]
        try:
            return cancel.run(functools.partial(call_inline, copy, inputs, one_thread))
        finally:
            self._idle.append(copy)

    def _inline(self, name: str) -> InlineFunction:
        self._inlined.append(InlineFunction(name, *self._dtypes))
        return self._inlined[-1]
