"""Values on their way between processes: arrays, bytes and tuples instead of TensorFlow's tensors.

A tensor travels as an array, a sequence as the graph of its data set (as in TFF's own runtime), a struct as a
tuple. Accumulators of sparse updates are mostly zeros; those travel as indices and values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

__all__ = ["deserialize", "expand", "serialize", "shrink"]


def serialize(value: Any, type_spec: tff.Type) -> Any:
    """Returns a value of one member (not one per client) in serialized form."""
    if isinstance(type_spec, tff.FederatedType):
        return serialize(value, type_spec.member)
    if isinstance(type_spec, tff.StructType):
        kinds = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        return tuple(serialize(part, kind) for part, kind in zip(value, kinds, strict=True))
    if isinstance(type_spec, tff.SequenceType):
        return tf.raw_ops.DatasetToGraphV2(input_dataset=value).numpy()
    return value.numpy()


def deserialize(value: Any, type_spec: tff.Type) -> Any:
    """The inverse of `serialize`; arrays are not copied, so they must not be written to."""
    if isinstance(type_spec, tff.FederatedType):
        return deserialize(value, type_spec.member)
    if isinstance(type_spec, tff.StructType):
        kinds = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        return tuple(deserialize(part, kind) for part, kind in zip(value, kinds, strict=True))
    if isinstance(type_spec, tff.SequenceType):
        return tf.raw_ops.DatasetFromGraph(graph_def=value)
    return tf.convert_to_tensor(value, type_spec.dtype)


class _Sparse(NamedTuple):
    """An array that is zero but for the bits of `values` at `indices` of its flattened form."""

    shape: tuple[int, ...]
    indices: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]


# Below this an array is not worth looking through.
_MIN_SIZE = 1024
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def shrink(value: Any) -> Any:
    """Returns a serialized value whose arrays, where mostly zeros, hold the rest only; `expand` undoes it."""
    if type(value) is tuple:
        return tuple(map(shrink, value))
    if not isinstance(value, np.ndarray) or value.size < _MIN_SIZE or value.dtype.itemsize not in _BITS:
        return value
    if value.dtype == object or value.size > np.iinfo(np.int32).max:
        return value
    # By its bits: a negative zero is not a zero, and comes back.
    bits = np.ascontiguousarray(value).reshape(-1).view(_BITS[value.dtype.itemsize])
    if 2 * np.count_nonzero(bits) * (4 + value.dtype.itemsize) > value.nbytes:
        return value
    indices = np.flatnonzero(bits).astype(np.int32)
    return _Sparse(value.shape, indices, value.reshape(-1)[indices])


def expand(value: Any) -> Any:
    """Returns the serialized value that was given to `shrink`, bit for bit."""
    if isinstance(value, _Sparse):
        array = np.zeros(value.shape, value.values.dtype)
        array.reshape(-1)[value.indices] = value.values
        return array
    return tuple(map(expand, value)) if type(value) is tuple else value
