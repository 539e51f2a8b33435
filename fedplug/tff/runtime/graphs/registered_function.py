"""A function in TensorFlow's eager context, and its copies for concurrent callers.

Kernels belong to the name of a function, and kernels that read data sets serve one caller at a time.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.eager import cancellation, execute
from tensorflow.python.eager import context as eager_context

from fedplug.tff.runtime.graphs.cancellation import Cancellation
from fedplug.tff.runtime.graphs.inline_calls import InlineFunction, call_inline
from fedplug.tff.runtime.graphs.registration import register_copy, unregister

__all__ = ["RegisteredFunction"]

# TFF's compiler has optimized the graph, and TensorFlow would optimize every copy again. This is set on the
# call, so that the rest of the program keeps its settings.
_NO_GRAPPLER = tf.compat.v1.ConfigProto()
_NO_GRAPPLER.graph_options.rewrite_options.disable_meta_optimizer = True
_CALL_ATTRS = ("executor_type", "", "config_proto", _NO_GRAPPLER.SerializeToString())

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
        is_inline: Whether it is called in the caller's thread.
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
        self.is_inline = inline
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
        if not self.is_inline:
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
