"""Serialized values: a tensor is an array, a struct a tuple, and a sequence the graph of its data set.

Accumulators of sparse updates are mostly zeros; `shrink` reduces them to indices and values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime.graphs.datasets_with_state import deserialized, serialized

__all__ = ["deserialize", "expand", "serialize", "shrink"]


def serialize(value: Any, type_spec: tff.Type) -> Any:
    """Serializes the value of one member, not one per client."""
    if isinstance(type_spec, tff.FederatedType):
        return serialize(value, type_spec.member)
    if isinstance(type_spec, tff.StructType):
        kinds = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        return tuple(serialize(part, kind) for part, kind in zip(value, kinds, strict=True))
    if isinstance(type_spec, tff.SequenceType):
        return serialized(value)
    return value.numpy()


def deserialize(value: Any, type_spec: tff.Type) -> Any:
    """Undoes `serialize`. Arrays are not copied, so the caller must not write to them."""
    if isinstance(type_spec, tff.FederatedType):
        return deserialize(value, type_spec.member)
    if isinstance(type_spec, tff.StructType):
        kinds = [kind for _, kind in tff.structure.iter_elements(type_spec)]
        return tuple(deserialize(part, kind) for part, kind in zip(value, kinds, strict=True))
    if isinstance(type_spec, tff.SequenceType):
        return deserialized(value)
    return tf.convert_to_tensor(value, type_spec.dtype)


class _Sparse(NamedTuple):
    """An array of zeros, except for `values` at `indices` of the flattened array."""

    shape: tuple[int, ...]
    indices: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]


# Smaller arrays are not worth the search for zeros.
_MIN_SIZE = 1024
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def shrink(value: Any) -> Any:
    """Returns a serialized value in which arrays of mostly zeros are `_Sparse`; `expand` undoes it."""
    if type(value) is tuple:
        return tuple(map(shrink, value))
    if not isinstance(value, np.ndarray) or value.size < _MIN_SIZE or value.dtype.itemsize not in _BITS:
        return value
    if value.dtype == object or value.size > np.iinfo(np.int32).max:
        return value
    # Compare bits, because a negative zero must come back.
    bits = np.ascontiguousarray(value).reshape(-1).view(_BITS[value.dtype.itemsize])
    if 2 * np.count_nonzero(bits) * (4 + value.dtype.itemsize) > value.nbytes:
        return value
    indices = np.flatnonzero(bits).astype(np.int32)
    return _Sparse(value.shape, indices, value.reshape(-1)[indices])


def expand(value: Any) -> Any:
    """Undoes `shrink`, bit for bit."""
    if isinstance(value, _Sparse):
        array = np.zeros(value.shape, value.values.dtype)
        array.reshape(-1)[value.indices] = value.values
        return array
    return tuple(map(expand, value)) if type(value) is tuple else value
