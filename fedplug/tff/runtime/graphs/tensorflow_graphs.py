"""Turns a TFF computation's serialized graph into a function that TensorFlow's eager runtime calls.

This file, `registration`, `registered_function`, `cancellation`, `inline_calls` and `shared_memory` alone use
private parts of TensorFlow 2.14; TFF 0.87 pins that version. The public ways were tried and do not do:
`tf.compat.v1.wrap_function(...).prune()` now and then fails on lowered loops, and a `Session` copies every
tensor in and out, and cannot hand over a dataset. What is used here:

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
from fedplug.tff.runtime.graphs.cancellation import Cancellation
from fedplug.tff.runtime.graphs.inline_calls import can_call_inline, iterate_inline
from fedplug.tff.runtime.graphs.joined_calls import NotJoinable
from fedplug.tff.runtime.graphs.private_calls import make_private, node_of
from fedplug.tff.runtime.graphs.registered_function import RegisteredFunction
from fedplug.tff.runtime.graphs.registration import new_name, register
from fedplug.tff.runtime.tff_internals import computation_pb2

__all__ = ["GraphFunction", "fits", "load", "naming_missing_ops"]

_loaded: weakref.WeakValueDictionary[bytes, GraphFunction] = weakref.WeakValueDictionary()
_loading = threading.Lock()


@contextlib.contextmanager
def naming_missing_ops() -> Iterator[None]:
    """Says what to do where TensorFlow does not know an op.

    Raises:
        OpLibraryError: No library loaded in this process provides an op of a graph that the block takes in.
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
    """Returns the function of a TensorFlow computation; equal computations share one.

    The identity the compiler writes into the proto is a hash that differs from process to process and is not
    trusted: the key is the content. A function lives as long as somebody holds it.

    Args:
        computation: The computation, with its graph.
        shapes: For every leaf of the result the shape its type declares; the graph may know less.

    Raises:
        OpLibraryError: The graph holds an op that no library loaded in this process provides.
    """
    keyed = computation_pb2.Computation()
    keyed.CopyFrom(computation)
    keyed.tensorflow.ClearField("cache_key")
    key = hashlib.sha256(keyed.SerializeToString(deterministic=True)).digest()
    with _loading:
        function = _loaded.get(key)
        if function is None:
            _loaded[key] = function = GraphFunction(keyed.tensorflow, shapes)
        return function


class GraphFunction:
    """A callable on flat lists of tensors: a computation's parameter leaves in, its result leaves out.

    Every call has its own variables and tables. Calls may run concurrently. Datasets are variant scalars.
    """

    def __init__(self, tensorflow: computation_pb2.TensorFlow, shapes: Sequence[Shape]) -> None:
        self._parameters = list(_tensor_names(tensorflow.parameter))
        self._results = list(_tensor_names(tensorflow.result))
        self._shapes = shapes
        self._session_token = tensorflow.session_token_tensor_name
        self._initialize_op = tensorflow.initialize_op
        self._source: tf.compat.v1.GraphDef | None = tf.compat.v1.GraphDef()
        tensorflow.graph_def.Unpack(self._source)
        self._built = self._build()
        if not self._built.one_shot:
            self._source = None

    def __call__(
        self, arguments: Sequence[tf.Tensor], cancel: Cancellation, *, one_thread: bool = False
    ) -> list[tf.Tensor]:
        """Calls the function; where a graph is being built, it becomes part of that.

        Args:
            arguments: Of the parameters that the graph reads, and others.
            cancel: Stops the call.
            one_thread: Whether operations leave TensorFlow's threads to others; where functions are called
                inline.

        Raises:
            tf.errors.CancelledError: `cancel.cancel()` was called before the end.
            tf.errors.OpError: An op failed.
            TypeError: An argument has another dtype, or a result another shape, than the graph declares.
            NotJoinable: A graph is being built that it cannot be part of.
        """
        built = self._built
        inputs = [arguments[i] if i < len(arguments) else tf.constant("fedplug") for i in built.inputs]
        if not tf.executing_eagerly():
            return self._add_call(inputs)
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
        return results

    def _add_call(self, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        """Adds a call to the graph that is being built."""
        built = self._built
        if not built.function.is_inline:
            raise NotJoinable
        dtypes = [tf.as_dtype(dtype) for dtype in built.function.output_dtypes]
        outputs = tf.raw_ops.StatefulPartitionedCall(args=inputs, Tout=dtypes, f=built.function.name)
        results = [outputs[index] for index in built.outputs]
        return [
            result if shape is None or result.dtype == tf.variant else tf.ensure_shape(result, shape)
            for result, shape in zip(results, self._shapes, strict=True)
        ]

    def _build(self) -> _Built:
        """Registers the graph as a new function."""
        name = new_name()
        private = make_private(
            self._source, self._results, self._initialize_op, f"{name}_", inline=can_call_inline()
        )
        if private.inline:
            iterate_inline(private.graph_def)
        with tf.Graph().as_default() as graph:
            with naming_missing_ops():
                tf.graph_util.import_graph_def(private.graph_def, name="")
            present = {node.name for node in private.graph_def.node}
            # The session token, where the graph reads it, is fed like one more parameter.
            feeds = [*self._parameters, self._session_token]
            used = [i for i, feed in enumerate(feeds) if feed and node_of(feed) in present]
            inputs = [graph.get_tensor_by_name(feeds[i]) for i in used]
            results = list(dict.fromkeys(private.fetches))
            # Through an identity, because a function's output must not be one of its inputs.
            outputs = [tf.identity(graph.get_tensor_by_name(result)) for result in results]
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
    """A registered function: what to feed (positions among the parameters) and what comes out."""

    function: RegisteredFunction
    one_shot: bool  # it may be called once
    inputs: list[int]
    outputs: list[int]  # for every result leaf, which output of the function it is


def _tensor_names(binding: computation_pb2.TensorFlow.Binding) -> Iterator[str]:
    """Yields the tensor of every leaf of a binding, in the order of the type it binds."""
    kind = binding.WhichOneof("binding")
    if kind == "tensor":
        yield binding.tensor.tensor_name
    elif kind == "sequence":
        yield binding.sequence.variant_tensor_name
    elif kind == "struct":
        for element in binding.struct.element:
            yield from _tensor_names(element)


def fits(actual: tuple[int, ...], declared: Shape) -> bool:
    """Whether a tensor has the shape its type declares; None is any rank, or any size."""
    if declared is None or actual == declared:
        return True
    return len(actual) == len(declared) and all(
        d is None or a == d for a, d in zip(actual, declared, strict=True)
    )
