"""Adds sparse payloads into a dense sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels
from fedplug.ops import _cuda, _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import own, take_result
from fedplug.ops.types import Array

__all__ = ["scatter_decode", "scatter_decode_add", "scatter_decode_update"]


@also_on(
    tensors=lambda: _tensorflow.scatter.scatter_decode_add, devices=lambda: _cuda.scatter.scatter_decode_add
)
def scatter_decode_add(
    accumulator: Any,
    values: Any,
    indices: Any,
    row_splits: Any = None,
    weights: Any = None,
    *,
    lowering: str | None = None,
) -> Array:
    """Adds sparse payloads into a dense accumulator.

    ``accumulator[indices[j]] += weights[i] * values[j]`` for every payload ``i``, in order, and its entries
    ``j``. Payload ``i`` owns the entries from ``row_splits[i]`` up to ``row_splits[i + 1]``. Each product and
    each sum is rounded once. Everything is checked before anything is added. Not differentiable.

    The compiled op keeps denormal numbers; the reference takes them for zero, as TensorFlow's threads do
    (float16 is not affected). Everything else is the same, bit for bit, but for the bits of a NaN.

    Args:
        accumulator: The dense sum so far; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        values: Of all payloads, one after the other; shape ``[e]``, the dtype of ``accumulator``.
        indices: Their places in the flattened accumulator, strictly ascending within a payload; ``[e]``,
            int32.
        row_splits: Where payloads begin and end; ``[p + 1]``, int64, ascending from 0 to ``e``; default: all
            entries are of one payload.
        weights: The factor of each payload; ``[p]``, the dtype of ``accumulator``; default: all 1.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

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
    total = own(np.asarray(accumulator))
    kernels.scatter_decode_add(total, *_payloads(values, indices, row_splits, weights, total.dtype))
    return total


@also_on(tensors=lambda: _tensorflow.scatter.scatter_decode_update)
def scatter_decode_update(
    accumulator: Array,
    values: Any,
    indices: Any,
    row_splits: Any = None,
    weights: Any = None,
    *,
    lowering: str | None = None,
) -> Any:
    """Does what `scatter_decode_add` does, and leaves the sum in the variable.

    The compiled op locks the variable and adds in its buffer, or in a copy if somebody still holds what was
    read from it before; that never changes. After an error the variable is what it was. The reference reads,
    and assigns.

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
    kernels.scatter_decode_add(
        accumulator, *_payloads(values, indices, row_splits, weights, accumulator.dtype)
    )


@also_on(tensors=lambda: _tensorflow.scatter.scatter_decode)
def scatter_decode(
    size: Any,
    values: Any,
    indices: Any,
    row_splits: Any = None,
    weights: Any = None,
    *,
    lowering: str | None = None,
) -> Array:
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
    values = np.asarray(values)
    payloads = _payloads(values, indices, row_splits, weights, values.dtype)
    return kernels.scatter_decode(*payloads, size=int(size), out=take_result(int(size), values.dtype))


def _payloads(
    values: Any, indices: Any, row_splits: Any, weights: Any, dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64] | None, NDArray[Any] | None]:
    splits = None if row_splits is None else np.asarray(row_splits, np.int64)
    factors = None if weights is None else np.asarray(weights, dtype)
    return np.asarray(values, dtype), np.asarray(indices, np.int32), splits, factors
