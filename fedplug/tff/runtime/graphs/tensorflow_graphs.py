"""Turns a TFF computation's serialized graph into a function that TensorFlow's eager runtime calls.

Only this file, `registration`, `registered_function`, `cancellation`, `inline_calls` and `shared_memory` use
private parts of TensorFlow 2.14, the version that TFF 0.87 pins. The public functions do not suffice:
`tf.compat.v1.wrap_function(...).prune()` sometimes fails on lowered loops; a `Session` copies every tensor
and cannot pass data sets. This file uses:

- `TF_GraphToFunction` and the eager context's function table: a graph as a function, and copies of it under
  other names;
- `execute_with_cancellation`: a call by name that another thread can stop;
- `EagerTensor._shape_tuple` and `_datatype_enum`: checks that cost 0.2 us each instead of 3.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from fedplug.errors import OpLibraryError
from fedplug.tff.runtime.graphs.datasets_with_state import for_one_reader, with_state_apart
from fedplug.tff.runtime.graphs.devices import current_device, place_of_output
from fedplug.tff.runtime.graphs.inline_calls import can_call_inline, iterate_inline
from fedplug.tff.runtime.graphs.private_calls import make_private, node_of
from fedplug.tff.runtime.graphs.registered_function import (
    Cancellation,
    RegisteredFunction,
    new_name,
    register,
)
from fedplug.tff.runtime.tff_internals import computation_pb2

__all__ = ["GraphFunction", "fits", "load", "naming_missing_ops"]

_loaded: weakref.WeakValueDictionary[bytes, GraphFunction] = weakref.WeakValueDictionary()
_loading = threading.Lock()


@contextlib.contextmanager
def naming_missing_ops() -> Iterator[None]:
    """Converts TensorFlow's error about an unknown op into one that names the remedy.

    Raises:
        OpLibraryError: No library loaded in this process provides an op of a graph that the block imports.
    """
    try:
        yield
    except (ValueError, tf.errors.NotFoundError) as error:
        if "Op type not registered" not in str(error):
            raise
        raise OpLibraryError(
            f"{str(error).splitlines()[0]}; load the library that provides it into this process first "
            "(tf.load_op_library, or import the package that does), then run it again"
        ) from error


Shape = tuple[int | None, ...] | None


def load(computation: computation_pb2.Computation, shapes: Sequence[Shape]) -> GraphFunction:
    """Returns the function of a TensorFlow computation. Equal computations share one function.

    The key is the content, because the identity in the proto differs from process to process, and the device
    of this thread. A function is released with its last reference.

    Args:
        computation: The computation, with its graph.
        shapes: The declared shape of every leaf of the result. The graph may know less.

    Raises:
        OpLibraryError: The graph has an op that no library loaded in this process provides.
    """
    keyed = computation_pb2.Computation()
    keyed.CopyFrom(computation)
    keyed.tensorflow.ClearField("cache_key")
    key = hashlib.sha256(keyed.SerializeToString(deterministic=True)).digest() + current_device().encode()
    with _loading:
        function = _loaded.get(key)
        if function is None:
            _loaded[key] = function = GraphFunction(keyed.tensorflow, shapes)
        return function


class GraphFunction:
    """A callable from a computation's parameter leaves to its result leaves, as flat lists of tensors.

    Every call has its own variables and tables. Calls may run concurrently. Datasets are variant scalars. It
    runs on the device of the thread that made it.
    """

    def __init__(self, tensorflow: computation_pb2.TensorFlow, shapes: Sequence[Shape]) -> None:
        self._parameters = list(_tensor_names(tensorflow.parameter))
        self._results = list(_tensor_names(tensorflow.result))
        self._shapes = shapes
        self._session_token = tensorflow.session_token_tensor_name
        self._initialize_op = tensorflow.initialize_op
        self._device = current_device()
        self._source: tf.compat.v1.GraphDef | None = tf.compat.v1.GraphDef()
        tensorflow.graph_def.Unpack(self._source)
        self._built = self._build()
        if not self._built.one_shot:
            self._source = None

    def __call__(
        self, arguments: Sequence[tf.Tensor], cancel: Cancellation, *, one_thread: bool = False
    ) -> list[tf.Tensor]:
        """Calls the function.

        Args:
            arguments: One tensor per parameter, also for parameters that the graph does not read.
            cancel: An object that can cancel the call.
            one_thread: Whether operations run without TensorFlow's threads; only for inline calls.

        Raises:
            tf.errors.CancelledError: `cancel.cancel()` was called before the end.
            tf.errors.OpError: An op failed.
            TypeError: An argument has another dtype, or a result another shape, than the graph declares.
        """
        built = self._built
        inputs = [
            for_one_reader(arguments[i]) if i < len(arguments) else tf.constant("fedplug")
            for i in built.inputs
        ]
        for tensor, dtype in zip(inputs, built.function.input_dtypes, strict=True):
            if tensor._datatype_enum() != dtype:
                raise TypeError(
                    f"an argument has dtype {tensor.dtype.name}, expected {tf.as_dtype(dtype).name}"
                )
        function = self._build().function if built.one_shot else built.function
        outputs = function(inputs, cancel, one_thread=one_thread)
        results = [outputs[index] for index in built.outputs]
        for tensor, shape in zip(results, self._shapes, strict=True):
            actual = tensor._shape_tuple()
            if actual != shape and not fits(actual, shape):
                raise TypeError(f"a result has shape {actual}, expected {shape}")
        return [with_state_apart(result) if result.dtype == tf.variant else result for result in results]

    def _build(self) -> _Built:
        """Registers the graph as a new function."""
        name = new_name()
        private = make_private(
            self._source,
            self._results,
            self._initialize_op,
            f"{name}_",
            device=self._device,
            inline=can_call_inline(),
        )
        if private.inline:
            iterate_inline(private.graph_def)
        with tf.Graph().as_default() as graph:
            with naming_missing_ops():
                tf.graph_util.import_graph_def(private.graph_def, name="")
            present = {node.name for node in private.graph_def.node}
            # The session token, if the graph reads it, is one more parameter.
            feeds = [*self._parameters, self._session_token]
            used = [i for i, feed in enumerate(feeds) if feed and node_of(feed) in present]
            inputs = [graph.get_tensor_by_name(feeds[i]) for i in used]
            results = list(dict.fromkeys(private.fetches))
            # An identity, because a function's output must not be one of its inputs.
            outputs = []
            for tensor in map(graph.get_tensor_by_name, results):
                with graph.device(place_of_output(tensor.dtype, self._device) or None):
                    outputs.append(tf.identity(tensor))
            names = register(name, graph, inputs, outputs, private.graph_def.library.function)
        return _Built(
            function=RegisteredFunction(
                names, inputs, outputs, inline=private.inline, exclusive=private.exclusive
            ),
            one_shot=private.one_shot,
            inputs=used,
            outputs=[results.index(fetch) for fetch in private.fetches],
        )


@dataclass(frozen=True)
class _Built:
    """A registered function, with the positions of the parameters that it reads."""

    function: RegisteredFunction
    one_shot: bool  # whether it may be called only once
    inputs: list[int]
    outputs: list[int]  # the output index of every result leaf


def _tensor_names(binding: computation_pb2.TensorFlow.Binding) -> Iterator[str]:
    """Yields the tensor name of every leaf of a binding, in the order of its type."""
    kind = binding.WhichOneof("binding")
    if kind == "tensor":
        yield binding.tensor.tensor_name
    elif kind == "sequence":
        yield binding.sequence.variant_tensor_name
    elif kind == "struct":
        for element in binding.struct.element:
            yield from _tensor_names(element)


def fits(actual: tuple[int, ...], declared: Shape) -> bool:
    """Returns whether a shape fits the declared one. None is any rank or any size."""
    if declared is None or actual == declared:
        return True
    return len(actual) == len(declared) and all(
        d is None or a == d for a, d in zip(actual, declared, strict=True)
    )
