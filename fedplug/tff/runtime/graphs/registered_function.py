"""A function in TensorFlow's eager context, and how its callers get out of each other's way.

Kernels belong to the name of a function, and those that read data sets take one caller at a time.
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

# TFF's compiler has optimized the graph once; TensorFlow's own pass would do it again for every copy. Set on
# the call, so that the rest of the program keeps its settings.
_NO_GRAPPLER = tf.compat.v1.ConfigProto()
_NO_GRAPPLER.graph_options.rewrite_options.disable_meta_optimizer = True
_CALL_ATTRS = ("executor_type", "", "config_proto", _NO_GRAPPLER.SerializeToString())

_Call = Callable[[Sequence[tf.Tensor], bool, cancellation.CancellationManager], list[tf.Tensor]]


class RegisteredFunction:
    """A function of flat lists of tensors, in the eager context for as long as somebody holds it.

    Calls may run concurrently.

    Args:
        names: What `register` put into the context: the function, and what it calls.
        inputs: What the function was made with.
        outputs: The same.
        inline: Whether it is called in the thread of the caller.
        exclusive: Whether every caller needs a copy of its own.

    Attributes:
        name: Of the function.
        input_dtypes: As TensorFlow numbers them.
        output_dtypes: As TensorFlow numbers them.
        is_inline: Whether it is called in the thread of the caller.
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
        # Everything to take out of the eager context again.
        self._registered = list(names)
        self._inlined: list[InlineFunction] = []
        weakref.finalize(self, unregister, self._registered, self._inlined).atexit = False
        self._call = self._callable(self.name)
        self._idle = [self._call]

    def __call__(
        self, inputs: Sequence[tf.Tensor], cancel: Cancellation, *, one_thread: bool
    ) -> list[tf.Tensor]:
        """Calls the function; raises what TensorFlow raises.

        Args:
            inputs: As many as it has, of its dtypes.
            cancel: Stops the call.
            one_thread: Whether operations leave TensorFlow's threads to others; where it is called inline.
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
        """Returns how to call a copy of the function."""
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
    del one_thread  # TensorFlow has no such choice
    outputs: list[tf.Tensor] = execute.execute_with_cancellation(
        name, num_outputs, inputs, _CALL_ATTRS, eager_context.context(), manager
    )
    return outputs
