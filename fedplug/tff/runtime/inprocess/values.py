"""The representation of TFF values while a computation runs, and conversions from and to callers' values.

========================  ==============================================================
type                      representation
========================  ==============================================================
tensor                    an eager tensor
sequence                  the variant tensor of a `tf.data.Dataset`, or a `DatasetWithState`
struct                    a tuple, in the order of the type (names live in the type only)
function                  a Python callable `(argument, round) -> value`
placed, all equal         the value itself
placed, one per client    `Clients`, a list in client order
========================  ==============================================================

Values are references and never change, so no step copies them. Callers' arrays are copied if they are
writable. Returned arrays are read-only, as in TFF's stock runtime. If a value does not fit its type, TFF's
serialization converts or refuses it, so that the rules and the error texts are TFF's.

At the start of an iteration, TensorFlow optimizes the data set's graph, tunes its buffers, and starts a
thread per processor for parallel steps. That pays off over thousands of elements. A client has few elements,
its iteration starts anew in every round, and clients run in parallel. So `ingest_sequence` changes the
options that the caller did not set.
"""

from __future__ import annotations

import collections
import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from numpy.typing import NDArray
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import ops

from fedplug.stores.base import can_be_written
from fedplug.tff import structures
from fedplug.tff.runtime.graphs.datasets_with_state import DatasetWithState, for_one_reader, with_state_apart
from fedplug.tff.runtime.graphs.devices import for_data_sets
from fedplug.tff.runtime.graphs.tensorflow_graphs import fits
from fedplug.tff.runtime.tff_internals import make_data_set_from_elements, transform_args

__all__ = [
    "Clients",
    "add",
    "builder",
    "dataset_from_variant",
    "dataset_of_elements",
    "flatten",
    "holds_clients",
    "ingest",
    "ingest_sequence",
    "materialize",
    "of_client",
    "quick_to_begin",
    "tensor_of",
    "to_arrays",
    "unflatten",
    "zeros",
]

Value: TypeAlias = Any
"""A value while a computation runs, or a caller's value. Its type is a `tff.Type`."""


def tensor_of(array: NDArray[Value]) -> tf.Tensor:
    """Returns a tensor that shares the array's memory if it is aligned and read-only, else a copy.

    TensorFlow never overwrites memory that it does not own.
    """
    if can_be_written(array):
        return tf.constant(array)
    context = eager_context.context()
    context.ensure_initialized()
    return ops.EagerTensor(array, context.device_name, None)


# The values, with their types, of data sets that are passed round after round. Neither ever changes.
_taken_in: weakref.WeakKeyDictionary[tf.data.Dataset, tuple[tff.SequenceType, tf.Tensor | DatasetWithState]]
_taken_in = weakref.WeakKeyDictionary()


def ingest_sequence(value: Value, type_spec: tff.SequenceType) -> tf.Tensor | DatasetWithState:
    """Converts a data set, or a list of elements.

    Raises:
        TypeError: The value has another type. TFF may raise another error for it.
    """
    with for_data_sets():
        if isinstance(value, list):
            value = make_data_set_from_elements(None, value, type_spec.element)
        if not isinstance(value, tf.data.Dataset):
            return _variant(_by_tff(value, type_spec))
        known = _taken_in.get(value)
        if known is None or known[0] is not type_spec:
            _taken_in[value] = known = type_spec, _variant(_checked(value, type_spec))
        return known[1]


def _checked(value: tf.data.Dataset, type_spec: tff.SequenceType) -> tf.data.Dataset:
    if not _flattens_alike(value.element_spec):
        return _by_tff(value, type_spec)
    if not type_spec.element.is_assignable_from(structures.element_type(value.element_spec)):
        tff.framework.serialize_value(value, type_spec)  # raises
    return value


def _by_tff(value: Value, type_spec: tff.SequenceType) -> tf.data.Dataset:
    """Converts or raises, by TFF's rules."""
    proto, _ = tff.framework.serialize_value(value, type_spec)
    dataset, _ = tff.framework.deserialize_value(proto, type_spec)
    return dataset


def _flattens_alike(spec: Value) -> bool:
    """Returns whether TensorFlow flattens these elements in the order of their TFF type."""
    if isinstance(spec, dict):
        return all(map(_flattens_alike, spec.values()))
    if type(spec) in (list, tuple):
        return all(map(_flattens_alike, spec))
    return isinstance(spec, tf.TypeSpec)


def _variant(dataset: tf.data.Dataset) -> tf.Tensor | DatasetWithState:
    """Returns the value of a data set, with fast options where the caller set none."""
    chosen = dataset.options()
    optimizations = chosen.experimental_optimization.apply_default_optimizations is None
    autotune = chosen.autotune.enabled is None
    threads = chosen.threading.private_threadpool_size is None
    if optimizations or autotune or threads:
        dataset = dataset.with_options(
            quick_to_begin(optimizations=optimizations, autotune=autotune, threads=threads)
        )
    fused = optimizations and chosen.experimental_optimization.shuffle_and_repeat_fusion is not False
    return with_state_apart(tf.data.experimental.to_variant(dataset), fused=fused)


@functools.cache
def quick_to_begin(
    *, optimizations: bool = True, autotune: bool = True, threads: bool = True
) -> tf.data.Options:
    """Returns the options with which an iteration over a data set starts without preparations.

    A data set that has them already needs no change.

    Args:
        optimizations: Whether to disable graph optimizations.
        autotune: Whether to disable the tuning of buffers.
        threads: Whether parallel steps share TensorFlow's threads.
    """
    options = tf.data.Options()
    if optimizations:
        options.experimental_optimization.apply_default_optimizations = False
    if autotune:
        options.autotune.enabled = False
    if threads:
        options.threading.private_threadpool_size = -1  # no threads; the default 0 means one per processor
    return options


_KEPT = 4096
"""Number of types whose converters are cached."""


class Clients(list[Value]):
    """One value per client, in client order."""


def flatten(value: Value) -> list[tf.Tensor]:
    """Returns the leaves of a value of tensors, sequences and structs."""
    if type(value) is not tuple:
        return [value]
    leaves = []
    for element in value:
        leaves.extend(flatten(element))
    return leaves


def unflatten(type_spec: tff.Type, leaves: Iterator[tf.Tensor]) -> Value:
    """Builds the value of `type_spec` from its leaves."""
    return builder(type_spec)(leaves)


def builder(type_spec: tff.Type) -> Callable[[Iterator[tf.Tensor]], Value]:
    """Returns a function that builds values of `type_spec` from their leaves."""
    if isinstance(type_spec, tff.StructType):
        parts = [builder(element) for element in structures.member_types(type_spec)]
        return lambda leaves: tuple([part(leaves) for part in parts])
    return next


def holds_clients(value: object) -> bool:
    """Returns whether a part of a value differs from client to client."""
    return isinstance(value, Clients) or (type(value) is tuple and any(map(holds_clients, value)))


def of_client(value: Value, client: int) -> Value:
    """Returns one client's part of a value."""
    if isinstance(value, Clients):
        return value[client]
    return tuple([of_client(part, client) for part in value]) if type(value) is tuple else value


def zeros(type_spec: tff.Type) -> list[tf.Tensor]:
    """Returns the leaves of the zero of `type_spec`. Unknown dimensions are 0."""
    if isinstance(type_spec, tff.StructType):
        return [zero for _, element in tff.structure.iter_elements(type_spec) for zero in zeros(element)]
    return [tf.zeros([size or 0 for size in type_spec.shape], type_spec.dtype)]


def add(total: Sequence[tf.Tensor] | None, leaves: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the sum of two values, given as their leaves. None is an empty sum."""
    return leaves if total is None else [a + b for a, b in zip(total, leaves, strict=True)]


def ingest(value: Value, type_spec: tff.Type) -> Value:
    """Converts a caller's value.

    Args:
        value: A value that TFF accepts for the type: arrays and Python scalars, containers, data sets or
            lists of elements, and lists with one value per client.
        type_spec: The type, not a function.

    Raises:
        TypeError: The value has another type. TFF may raise another error for it.
    """
    return _ingester(type_spec)(value)


@functools.lru_cache(_KEPT)
def _ingester(type_spec: tff.Type) -> Callable[[Value], Value]:
    """Returns the function that converts callers' values of a type."""
    if isinstance(type_spec, tff.TensorType):
        return functools.partial(_ingest_tensor, type_spec=type_spec)
    if isinstance(type_spec, tff.SequenceType):
        return functools.partial(ingest_sequence, type_spec=type_spec)
    if isinstance(type_spec, tff.StructType):
        return _struct_ingester(type_spec)
    if isinstance(type_spec, tff.FederatedType):
        of_one = _ingester(type_spec.member)
        return of_one if type_spec.all_equal else _clients_ingester(type_spec, of_one)

    def refuse(value: Value) -> Value:
        raise TypeError(f"a value of type {type_spec} cannot be passed to a computation, found {type(value)}")

    return refuse


def _struct_ingester(type_spec: tff.StructType) -> Callable[[Value], Value]:
    parts = [_ingester(element) for element in structures.member_types(type_spec)]

    def ingest_struct(value: Value) -> Value:
        elements = structures.members(value)
        if len(elements) != len(parts):
            tff.framework.serialize_value(value, type_spec)  # raises
        return tuple([part(element) for part, element in zip(parts, elements, strict=True)])

    return ingest_struct


def _clients_ingester(
    type_spec: tff.FederatedType, of_one: Callable[[Value], Value]
) -> Callable[[Value], Value]:
    def ingest_clients(value: Value) -> Value:
        if not isinstance(value, list | tuple):
            tff.framework.serialize_value(value, type_spec)  # raises
        return Clients(map(of_one, value))

    return ingest_clients


# The kinds of NumPy dtypes for which TFF accepts each Python scalar type.
_KINDS = {bool: "b", int: "iu", float: "f"}


def _is_scalar_of(value: Value, type_spec: tff.TensorType) -> bool:
    """Returns whether TFF accepts a Python scalar as a value of the type. Its range matters too."""
    of_kind = type_spec.dtype.kind in _KINDS.get(type(value), "") and type_spec.shape == ()
    return of_kind and bool(np.can_cast(value, type_spec.dtype))


def _ingest_tensor(value: Value, type_spec: tff.TensorType) -> tf.Tensor:
    if _is_scalar_of(value, type_spec):
        value = type_spec.dtype.type(value)
    elif not (
        isinstance(value, np.ndarray | np.generic)
        and value.dtype.type is type_spec.dtype.type
        and fits(value.shape, type_spec.shape)
    ):
        proto, _ = tff.framework.serialize_value(value, type_spec)  # converts or raises, by TFF's rules
        value, _ = tff.framework.deserialize_value(proto, type_spec)
    return tensor_of(value) if isinstance(value, np.ndarray) else tf.convert_to_tensor(value)


def to_arrays(value: Value) -> Value:
    """Applies TFF's `transform_args`, which traverses the whole value, only if the value has tensors."""
    return value if _is_plain(value) else transform_args(value)


_PLAIN: tuple[type, ...] = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, tf.data.Dataset)


def _is_plain(value: object) -> bool:
    """Returns whether a value of common containers has no tensors."""
    return isinstance(value, _PLAIN) or (
        structures.is_common(value) and all(map(_is_plain, structures.members(value)))
    )


def materialize(value: Value, type_spec: tff.Type, num_clients: int) -> Value:
    """Converts a result like TFF's stock runtime: to arrays, structs, data sets and lists per client."""
    return _materializer(type_spec)(value, num_clients)


@functools.lru_cache(_KEPT)
def _materializer(type_spec: tff.Type) -> Callable[[Value, int], Value]:
    """Returns the function that converts results of a type."""
    if isinstance(type_spec, tff.TensorType):
        return lambda value, num_clients: _materialize_tensor(value)
    if isinstance(type_spec, tff.SequenceType):
        return lambda value, num_clients: dataset_from_variant(value, type_spec.element)
    if isinstance(type_spec, tff.StructType):
        parts = [_materializer(element) for element in structures.member_types(type_spec)]
        return lambda value, num_clients: structures.contain(
            [part(element, num_clients) for part, element in zip(parts, value, strict=True)], type_spec
        )
    if isinstance(type_spec, tff.FederatedType):
        of_one = _materializer(type_spec.member)
        if type_spec.all_equal:
            return lambda value, num_clients: of_one(
                value[0] if isinstance(value, Clients) else value, num_clients
            )
        return lambda value, num_clients: [
            of_one(member, num_clients)
            for member in (value if isinstance(value, Clients) else [value] * num_clients)
        ]
    raise TypeError(f"a value of type {type_spec} cannot be handed out of a computation")


def _materialize_tensor(tensor: tf.Tensor) -> Value:
    if tensor.dtype == tf.string:
        return tensor.numpy()  # bytes, or an array of them
    array = np.asarray(tensor)
    if array.ndim == 0:
        return array[()]
    array.flags.writeable = False  # it may share memory with a constant of the graph
    return array


def dataset_from_variant(variant: tf.Tensor | DatasetWithState, element: tff.Type) -> tf.data.Dataset:
    """Returns the data set of a sequence. Its elements are tensors, tuples and ordered dictionaries."""
    return tf.data.experimental.from_variant(for_one_reader(variant), structure=_element_spec(element))


def _element_spec(type_spec: tff.Type) -> Value:
    if isinstance(type_spec, tff.TensorType):
        return tf.TensorSpec(type_spec.shape, type_spec.dtype)
    container = getattr(type_spec, "python_container", None)
    if container in (tf.RaggedTensor, tf.sparse.SparseTensor):
        return tff.types.type_to_tf_tensor_specs(type_spec)
    elements = list(tff.structure.iter_elements(type_spec))
    if elements and all(name is not None for name, _ in elements):
        return collections.OrderedDict((name, _element_spec(t)) for name, t in elements)
    return tuple(_element_spec(t) for _, t in elements)


def dataset_of_elements(elements: list[Value], element: tff.Type) -> tf.Tensor:
    """Returns a sequence of `elements`, values of the type `element` whose shapes may differ."""
    spec = _element_spec(element)

    def shapes(value: Value) -> list[tuple[int, ...]]:
        return [tuple(leaf.shape) for leaf in flatten(value)]

    def slices(values: list[Value]) -> tf.data.Dataset:
        columns = zip(*map(flatten, values), strict=True)
        return tf.data.Dataset.from_tensor_slices(_pack(spec, iter([tf.stack(column) for column in columns])))

    with for_data_sets():
        if elements:
            parts = [slices(list(alike)) for _, alike in itertools.groupby(elements, key=shapes)]
        else:
            empty = [
                tf.zeros([0, *(size or 0 for size in leaf.shape)], leaf.dtype) for leaf in _spec_leaves(spec)
            ]
            parts = [tf.data.Dataset.from_tensor_slices(_pack(spec, iter(empty)))]
        whole = functools.reduce(tf.data.Dataset.concatenate, parts)
        return tf.data.experimental.to_variant(whole.with_options(quick_to_begin()))


def _pack(spec: Value, leaves: Iterator[tf.Tensor]) -> Value:
    """Returns leaves, given in the order of the type, in the structure of `spec`."""
    if isinstance(spec, dict):
        return collections.OrderedDict((name, _pack(part, leaves)) for name, part in spec.items())
    if isinstance(spec, tuple):
        return tuple(_pack(part, leaves) for part in spec)
    return next(leaves)


def _spec_leaves(spec: Value) -> list[tf.TensorSpec]:
    """Returns the leaves of `spec` in the order of the type."""
    if isinstance(spec, dict | tuple):
        parts = spec.values() if isinstance(spec, dict) else spec
        return [leaf for part in parts for leaf in _spec_leaves(part)]
    return [spec]
