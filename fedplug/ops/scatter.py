"""Adds sparse payloads into a dense sum: compiled ops and their twin. Must not know any payload format."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._checks import (
    after,
    as_int64,
    require,
    require_equal_shapes,
    require_floating,
    require_variable,
    require_vectors,
)
from fedplug.ops.lowering import resolve_lowering

__all__ = ["scatter_decode", "scatter_decode_add", "scatter_decode_update"]

tf.no_gradient("Fedplug>ScatterDecode")
tf.no_gradient("Fedplug>ScatterDecodeAdd")
tf.no_gradient("Fedplug>ResourceScatterDecodeAdd")

_MAX_SIZE = 2**31 - 1


def scatter_decode_add(
    accumulator: Any,
    values: Any,
    indices: Any,
    row_splits: Any,
    weights: Any = None,
    *,
    lowering: str | None = None,
) -> tf.Tensor:
    """Adds sparse payloads into a dense accumulator.

    ``accumulator[indices[j]] += weights[i] * values[j]`` for every payload ``i``, in order, and its entries
    ``j``. Payload ``i`` owns the entries from ``row_splits[i]`` up to ``row_splits[i + 1]``. Each product and
    each sum is rounded once. Everything is checked before anything is added. Not differentiable.

    The compiled op keeps denormal numbers; the twin does as TensorFlow's threads do and takes them for zero
    (float16 is not affected). Everything else is the same, bit for bit, but for the bits of a NaN.

    Args:
        accumulator: The dense sum so far; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        values: Of all payloads, one after the other; shape ``[e]``, the dtype of ``accumulator``.
        indices: Their places in the flattened accumulator, strictly ascending within a payload; ``[e]``,
            int32.
        row_splits: Where payloads begin and end; ``[p + 1]``, int64, ascending from 0 to ``e``.
        weights: The factor of each payload; ``[p]``, the dtype of ``accumulator``; default: all 1.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        The new accumulator, of the same shape and dtype.

    Raises:
        TypeError: ``accumulator`` is not of one of these dtypes.
        ValueError: Static shapes do not fit together.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: a payload is not valid (the message names it), or lengths
            differ.
    """
    accumulator = tf.convert_to_tensor(accumulator)
    values = tf.convert_to_tensor(values, accumulator.dtype)
    require_floating(accumulator=accumulator)
    payloads = _payloads(values, indices, row_splits, weights)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_scatter_decode_add(accumulator, *payloads)
    return _twin(accumulator, *payloads)


def scatter_decode_update(
    accumulator: tf.Variable,
    values: Any,
    indices: Any,
    row_splits: Any,
    weights: Any = None,
    *,
    lowering: str | None = None,
) -> Any:
    """Does what `scatter_decode_add` does, and leaves the sum in the variable.

    The compiled op locks the variable and adds in its buffer, or in a copy if somebody still holds what was
    read from it before; that never changes. After an error the variable is what it was. The twin reads, and
    assigns.

    Args:
        accumulator: The dense sum so far; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        values: As for `scatter_decode_add`, and so are the other arguments.
        indices: See there.
        row_splits: See there.
        weights: See there.
        lowering: See there.

    Returns:
        Where a graph is being built, the operation; ``tf.function`` runs it in its turn. Eagerly None.

    Raises:
        TypeError: ``accumulator`` is no variable, or not of one of these dtypes.
        ValueError: Static shapes do not fit together.
        UnknownNameError: ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.FailedPreconditionError: When run: the variable is not initialized.
        tf.errors.InvalidArgumentError: When run: what `scatter_decode_add` refuses.
    """
    require_variable(accumulator=accumulator)
    payloads = _payloads(tf.convert_to_tensor(values, accumulator.dtype), indices, row_splits, weights)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_resource_scatter_decode_add(accumulator.handle, *payloads)
    return accumulator.assign(_twin(accumulator.read_value(), *payloads), read_value=False)


def scatter_decode(
    size: Any,
    values: Any,
    indices: Any,
    row_splits: Any,
    weights: Any = None,
    *,
    lowering: str | None = None,
) -> tf.Tensor:
    """The dense sum of sparse payloads: what `scatter_decode_add` makes of zeros, bit for bit.

    The compiled op writes each element once; zeros handed to `scatter_decode_add` would be written, copied
    where TensorFlow keeps them for the next call, and read again.

    Args:
        size: The number of elements of the sum, below 2^31; integer scalar.
        values: As for `scatter_decode_add`; float32, float64, bfloat16 or float16.
        indices: As for `scatter_decode_add`.
        row_splits: As for `scatter_decode_add`.
        weights: As for `scatter_decode_add`.
        lowering: As for `scatter_decode_add`.

    Returns:
        The sum; shape ``[size]``, the dtype of ``values``.

    Raises:
        TypeError: ``values`` is not of one of these dtypes.
        ValueError: Static shapes do not fit together.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: what `scatter_decode_add` refuses, or ``size`` is out of
            range.
    """
    size = as_int64(size)
    values = tf.convert_to_tensor(values)
    require_floating(values=values)
    payloads = _payloads(values, indices, row_splits, weights)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_scatter_decode(size, *payloads)
    in_range = (size >= 0) & (size <= _MAX_SIZE)
    checked = after([require(in_range, "size is not in [0, 2^31)", size)], size)
    zeros = tf.zeros(tf.reshape(checked, [1]), values.dtype)
    zeros.set_shape([tf.get_static_value(size)])
    return _twin(zeros, *payloads)


def _payloads(values: tf.Tensor, indices: Any, row_splits: Any, weights: Any) -> tuple[tf.Tensor, ...]:
    """Values, indices, row splits and weights as tensors whose static shapes fit together."""
    indices = tf.convert_to_tensor(indices, tf.int32)
    row_splits = as_int64(row_splits)
    require_vectors(values=values, indices=indices, row_splits=row_splits)
    require_equal_shapes(values=values, indices=indices)
    if weights is None:
        weights = tf.ones(tf.maximum(tf.shape(row_splits) - 1, 0), values.dtype)
    weights = tf.convert_to_tensor(weights, values.dtype)
    require_vectors(weights=weights)
    return values, indices, row_splits, weights


def _twin(accumulator: Any, values: Any, indices: Any, row_splits: Any, weights: Any) -> tf.Tensor:
    shape = tf.shape(accumulator)
    flat = tf.stop_gradient(tf.reshape(accumulator, [-1]))
    payloads = tf.size(weights)
    row_splits = after(_row_split_checks(row_splits, tf.size(values), tf.size(indices), payloads), row_splits)
    indices = after([_index_check(indices, row_splits, tf.size(flat))], indices)

    # One payload after the other, not all in one scatter: TensorFlow leaves the order of several additions to
    # one element open.
    def add(i: Any, total: Any) -> Any:
        mine = slice(row_splits[i], row_splits[i + 1])
        return i + 1, tf.tensor_scatter_nd_add(total, indices[mine, tf.newaxis], weights[i] * values[mine])

    _, total = tf.while_loop(
        lambda i, _: i < payloads, add, (0, flat), shape_invariants=(tf.TensorShape([]), flat.shape)
    )
    total = tf.stop_gradient(tf.reshape(total, shape))
    total.set_shape(accumulator.shape)
    return total


def _row_split_checks(row_splits: Any, entries: Any, index_count: Any, payloads: Any) -> list[Any]:
    return [
        require(tf.equal(entries, index_count), "values and indices differ in length", entries, index_count),
        require(
            tf.equal(tf.size(row_splits), payloads + 1),
            "row_splits must have one element more than weights",
            tf.size(row_splits),
            payloads,
        ),
        require(
            tf.reduce_all(tf.equal(row_splits[:1], 0))
            & tf.reduce_all(row_splits[1:] >= row_splits[:-1])
            & tf.reduce_all(tf.equal(row_splits[-1:], tf.cast(entries, tf.int64))),
            "row_splits must ascend from 0 to the number of entries",
            row_splits,
            entries,
        ),
    ]


def _index_check(indices: Any, row_splits: Any, n: Any) -> Any:
    entry = tf.range(tf.size(indices), dtype=tf.int64)
    payload = tf.searchsorted(row_splits, entry, side="right") - 1
    begins = tf.equal(entry, tf.gather(row_splits, payload))
    previous = tf.concat([[-1], indices[:-1]], 0)[: tf.size(indices)]
    bad = (indices < 0) | (indices >= n) | (~begins & (indices <= previous))
    return require(
        ~tf.reduce_any(bad),
        "the indices of a payload must ascend strictly and be in [0, n); those of this payload do not:",
        tf.boolean_mask(payload, bad)[:1],
    )
