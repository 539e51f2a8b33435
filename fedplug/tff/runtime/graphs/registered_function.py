"""A function in TensorFlow's eager context: its registration, its copies for concurrent callers, its calls.

The context has one namespace for the whole process, so names have a counter. TensorFlow caches kernels by
function name, and kernels that read data sets serve one caller at a time, so each concurrent caller gets a
renamed copy.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager import cancellation, execute
from tensorflow.python.eager import context as eager_context

from fedplug.tff.runtime.graphs.inline_calls import InlineFunction, call_inline, forget

__all__ = ["Cancellation", "RegisteredFunction", "new_name", "register", "register_copy", "unregister"]

# TFF's compiler has optimized the graph, and TensorFlow would optimize every copy again. This is set on the
# call, so that the rest of the program keeps its settings.
_NO_GRAPPLER = tf.compat.v1.ConfigProto()
_NO_GRAPPLER.graph_options.rewrite_options.disable_meta_optimizer = True
_CALL_ATTRS = ("executor_type", "", "config_proto", _NO_GRAPPLER.SerializeToString())


class Cancellation:
    """Cancels running and later calls that use it. Any thread may use it."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._managers: list[cancellation.CancellationManager] = []
        self._idle: list[cancellation.CancellationManager] = []
        self._cancelled = False

    def cancel(self) -> None:
        """Makes running and later calls end with `tf.errors.CancelledError`."""
        with self._changing:
            self._cancelled = True
            managers = list(self._managers)
        for manager in managers:
            manager.start_cancel()

    def check(self) -> None:
        """Raises `tf.errors.CancelledError` after `cancel`."""
        if self._cancelled:
            raise tf.errors.CancelledError(None, None, "the computation was cancelled")

    def run(self, call: Callable[[cancellation.CancellationManager], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Runs a call with a manager that no other running call has.

        TensorFlow cancels the manager if the call fails.
        """
        manager = self._manager()
        results = call(manager)
        self._idle.append(manager)  # reusable: nothing was cancelled
        return results

    def _manager(self) -> cancellation.CancellationManager:
        with self._changing:
            self.check()
            if self._idle:
                return self._idle.pop()
            self._managers.append(cancellation.CancellationManager())
            return self._managers[-1]


_names = itertools.count()  # makes function names unique in this process


def new_name() -> str:
    """Returns an unused function name."""
    return f"fedplug_{next(_names)}"


def register(
    name: str,
    graph: tf.Graph,
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[tf.Tensor],
    library: Iterable[function_pb2.FunctionDef],
) -> list[str]:
    """Registers a graph and its library. Returns the registered names.

    Args:
        name: Name of the function.
        graph: A graph whose operations all become part of the function.
        inputs: Inputs of the function.
        outputs: Outputs of the function. None of the inputs.
        library: Definitions of the functions that the graph calls and the context does not have.
    """
    outside = {tensor.op for tensor in inputs}
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


_Call = Callable[[Sequence[tf.Tensor], bool, cancellation.CancellationManager], list[tf.Tensor]]


class RegisteredFunction:
    """A function of flat lists of tensors, which the eager context has as long as this object exists.

    Calls may run concurrently.

    Args:
        names: The names that `register` put into the context: the function and the functions it calls.
        inputs: Symbolic inputs of the function.
        outputs: Symbolic outputs of the function.
        inline: Whether it is called in the caller's thread.
        exclusive: Whether every concurrent caller needs a copy.

    Attributes:
        name: Name of the function.
        input_dtypes: TensorFlow's dtype numbers of the inputs.
        output_dtypes: TensorFlow's dtype numbers of the outputs.
    """

    def __init__(
        self,
        names: Sequence[str],
        inputs: Sequence[tf.Tensor],
        outputs: Sequence[tf.Tensor],
        *,
        inline: bool,
        exclusive: bool,
    ) -> None:
        self.name = names[0]
        self.input_dtypes = [tensor.dtype.as_datatype_enum for tensor in inputs]
        self.output_dtypes = [tensor.dtype.as_datatype_enum for tensor in outputs]
        self._is_inline = inline
        self._is_exclusive = exclusive
        # Everything to remove from the eager context again.
        self._registered = list(names)
        self._inlined: list[InlineFunction] = []
        weakref.finalize(self, unregister, self._registered, self._inlined).atexit = False
        self._call = self._callable(self.name)
        self._idle = [self._call]

    def __call__(
        self, inputs: Sequence[tf.Tensor], cancel: Cancellation, *, one_thread: bool
    ) -> list[tf.Tensor]:
        """Calls the function. Raises TensorFlow's errors.

        Args:
            inputs: One tensor per input, of the input's dtype.
            cancel: An object that can cancel the call.
            one_thread: Whether operations run without TensorFlow's threads; only for inline calls.
        """
        if not self._is_exclusive:
            return cancel.run(functools.partial(self._call, inputs, one_thread))
        try:
            call = self._idle.pop()
        except IndexError:
            self._registered.append(register_copy(self.name))
            call = self._callable(self._registered[-1])
        try:
            return cancel.run(functools.partial(call, inputs, one_thread))
        finally:
            self._idle.append(call)

    def _callable(self, name: str) -> _Call:
        """Returns a callable for a copy of the function."""
        if not self._is_inline:
            return functools.partial(_call_by_name, name, len(self.output_dtypes))
        self._inlined.append(InlineFunction(name, self.input_dtypes, self.output_dtypes))
        return functools.partial(call_inline, self._inlined[-1])


def _call_by_name(
    name: str,
    num_outputs: int,
    inputs: Sequence[tf.Tensor],
    one_thread: bool,
    manager: cancellation.CancellationManager,
) -> list[tf.Tensor]:
    del one_thread  # not possible for calls by name
    outputs: list[tf.Tensor] = execute.execute_with_cancellation(
        name, num_outputs, inputs, _CALL_ATTRS, eager_context.context(), manager
    )
    return outputs
