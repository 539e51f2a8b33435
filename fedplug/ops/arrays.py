"""The steps that encoders take between ops, for NumPy arrays and TensorFlow's tensors alike.

Names and meanings are those of the array API standard (https://data-apis.org/array-api), as far as it has
them. Dtypes may be given by name. Arithmetic, comparisons and slices need no functions: both kinds have the
operators.
"""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.errors import ArgumentError
from fedplug.ops import _cuda, _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for
from fedplug.ops.spec import largest_finite
from fedplug.ops.types import Array

__all__ = [
    "add_n",
    "add_residual",
    "all",
    "any",
    "arange",
    "argsort_descending",
    "asarray",
    "astype",
    "clip",
    "concat",
    "cond",
    "cumulative_sum",
    "divide_no_nan",
    "ensure_shape",
    "floor",
    "full",
    "identity",
    "max",
    "maximum",
    "min",
    "minimum",
    "multiply",
    "no_residual",
    "nonzero",
    "put_zeros",
    "repeat",
    "reshape",
    "round",
    "saturate_cast",
    "searchsorted",
    "segment_sum",
    "shape",
    "size",
    "sqrt",
    "stack",
    "subtract",
    "sum",
    "table_lookup",
    "take",
    "transpose",
    "where",
    "zeros",
    "zeros_like",
]

_LARGE_BYTES = 2**18
"""From here on `fedplug.kernels.empty` keeps memory, and malloc does not."""


@also_on(tensors=lambda: _tensorflow.arrays.asarray)
def asarray(values: Any, like: Array) -> Array:
    """Numbers as an array of the kind and the dtype of ``like``."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, as in TensorFlow
        return np.asarray(values, like.dtype)


@also_on(tensors=lambda: _tensorflow.arrays.zeros)
def zeros(spec: Any) -> Array:
    """Zeros of the shape and dtype of a spec; not of memory that the system has yet to fill with zeros."""
    made = kernels.empty(spec.shape, np.dtype(spec.dtype))
    made.fill(0)
    return made


@also_on(tensors=lambda: _tensorflow.arrays.zeros_like)
def zeros_like(x: Array) -> Array:
    """Zeros of the shape and dtype of an array."""
    return np.zeros(x.shape, x.dtype)


@also_on(tensors=lambda: _tensorflow.arrays.no_residual, devices=lambda: _cuda.arrays.no_residual)
def no_residual(x: Array) -> Array | None:
    """What stands for zeros of the shape and dtype of ``x`` where an op takes a residual."""
    del x
    return None


@also_on(tensors=lambda: _tensorflow.arrays.full)
def full(count: Any, value: Array) -> Array:
    """A vector of ``count`` times one number, a scalar array."""
    return np.full(int(count), value)


@also_on(tensors=lambda: _tensorflow.arrays.size)
def size(x: Array) -> Any:
    """How many elements: an int, of a tensor an int32 scalar (see `num_elements` for static shapes)."""
    return x.size


@also_on(tensors=lambda: _tensorflow.arrays.shape)
def shape(x: Array) -> Any:
    """The shape, for `reshape`; of a tensor an int32 vector, as it may be unknown while a graph is built."""
    return x.shape


@also_on(tensors=lambda: _tensorflow.arrays.identity)
def identity(x: Array) -> Array:
    """``x``; in a graph an op, which runs only where the conditions it stands under hold."""
    return x


@also_on(tensors=lambda: _tensorflow.arrays.astype, devices=lambda: _cuda.arrays.astype)
def astype(x: Array, dtype: Any) -> Array:
    """With another dtype, rounded to nearest even, towards zero for whole numbers."""
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(dtype, copy=False)


@also_on(tensors=lambda: _tensorflow.arrays.saturate_cast)
def saturate_cast(x: Array, dtype: Any) -> Array:
    """With another floating dtype; what is too large becomes its largest number."""
    x = np.asarray(x)  # of one element, NumPy has scalars
    if x.dtype == np.dtype(dtype) and kernels.all_finite(x):
        return x  # to look is cheaper than to fill new memory
    largest = largest_finite(dtype)
    return np.asarray(np.clip(x, -largest, largest)).astype(dtype, copy=False)


@also_on(tensors=lambda: _tensorflow.arrays.reshape)
def reshape(x: Array, shape: Sequence[Any]) -> Array:
    """The elements in row-major order in another shape; -1 stands for what is left."""
    return np.reshape(np.asarray(x), tuple(shape))  # of a scalar, NumPy would make one again


@also_on(tensors=lambda: _tensorflow.arrays.transpose)
def transpose(x: Array) -> Array:
    """Of a matrix."""
    return np.ascontiguousarray(x.T)


@also_on(tensors=lambda: _tensorflow.arrays.ensure_shape, devices=lambda: _cuda.arrays.ensure_shape)
def ensure_shape(x: Array, shape: Sequence[int]) -> Array:
    """``x``, of which it is known that it has this shape."""
    if x.shape != tuple(shape):
        raise ArgumentError(f"an array has shape {x.shape}; it must have {tuple(shape)}")
    return x


@also_on(tensors=lambda: _tensorflow.arrays.concat)
def concat(arrays: Sequence[Array]) -> Array:
    """Along the first axis."""
    if builtins.sum(each.nbytes for each in arrays) < _LARGE_BYTES:
        return np.concatenate(arrays)
    shape = builtins.sum(map(len, arrays)), *arrays[0].shape[1:]
    return np.concatenate(arrays, out=kernels.empty(shape, np.result_type(*arrays)))


@also_on(tensors=lambda: _tensorflow.arrays.stack)
def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Along a new axis."""
    return np.stack(arrays, axis)


@also_on(tensors=lambda: _tensorflow.arrays.take)
def take(x: Array, indices: Array) -> Array:
    """The elements at these places of the first axis."""
    return np.asarray(x)[np.asarray(indices)]


@also_on(tensors=lambda: _tensorflow.arrays.table_lookup)
def table_lookup(table: Sequence[Any], position: Any, dtype: Any) -> Array:
    """The entry at a position; the first for what is below 0, the last for what is beyond the end."""
    return np.dtype(dtype).type(table[builtins.min(builtins.max(int(position), 0), len(table) - 1)])


@also_on(tensors=lambda: _tensorflow.arrays.cond)
def cond(condition: Array, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """What one of two functions returns; only that one is run."""
    return if_true() if condition else if_false()


@also_on(tensors=lambda: _tensorflow.arrays.put_zeros)
def put_zeros(x: Array, indices: Array) -> Array:
    """A vector with zeros at these places."""
    changed = x.copy()
    changed[indices] = 0
    return changed


@also_on(tensors=lambda: _tensorflow.arrays.nonzero)
def nonzero(x: Array) -> Array:
    """The places of the elements of a vector that are true, ascending; int32."""
    return np.flatnonzero(x).astype(np.int32)


@also_on(tensors=lambda: _tensorflow.arrays.where)
def where(condition: Array, x: Array, y: Array) -> Array:
    """Elements of x where the condition holds, else of y."""
    return np.where(condition, x, y)


@also_on(tensors=lambda: _tensorflow.arrays.arange)
def arange(end: Any, dtype: Any = "int64") -> Array:
    """0 up to ``end``, excluded."""
    return np.arange(int(end), dtype=dtype)


@also_on(tensors=lambda: _tensorflow.arrays.repeat)
def repeat(x: Array, times: int) -> Array:
    """Every element so many times."""
    return np.repeat(x, times)


@also_on(tensors=lambda: _tensorflow.arrays.multiply)
def multiply(x: Array, y: Array) -> Array:
    """Elementwise; what is too large becomes infinite, without a warning."""
    with np.errstate(over="ignore"):
        return np.asarray(np.multiply(x, y))  # NumPy makes a scalar, which cannot be written, of rank 0


@also_on(tensors=lambda: _tensorflow.arrays.add_residual)
def add_residual(x: Array, residual: Array) -> Array:
    """``x + residual``, in the place of the next residual.

    A residual that was donated is not written over where a sum is NaN or infinite, as that is refused later.
    """
    place = place_for(residual, x)
    if place is residual and kernels.count_nonfinite(x, residual):
        place = kernels.empty(x.shape, x.dtype)
    return np.add(x, residual, out=place)


@also_on(tensors=lambda: _tensorflow.arrays.subtract)
def subtract(x: Array, y: Array) -> Array:
    """``x - y``, over ``x``, which nobody else may have, unless the two share memory."""
    return np.subtract(x, y, out=None if np.may_share_memory(x, y) else x)


@also_on(tensors=lambda: _tensorflow.arrays.minimum)
def minimum(x: Array, y: Array) -> Array:
    """Elementwise."""
    return np.minimum(x, y)


@also_on(tensors=lambda: _tensorflow.arrays.maximum)
def maximum(x: Array, y: Array) -> Array:
    """Elementwise."""
    return np.maximum(x, y)


@also_on(tensors=lambda: _tensorflow.arrays.clip)
def clip(x: Array, lowest: Any, highest: Any) -> Array:
    """Elementwise, into the range."""
    return np.clip(x, lowest, highest)


@also_on(tensors=lambda: _tensorflow.arrays.floor)
def floor(x: Array) -> Array:
    """Elementwise."""
    return np.floor(x)


@also_on(tensors=lambda: _tensorflow.arrays.round)
def round(x: Array) -> Array:
    """Elementwise, to the nearest whole number, ties to even."""
    return np.round(x)


@also_on(tensors=lambda: _tensorflow.arrays.add_n)
def add_n(arrays: Sequence[Array]) -> Array:
    """The sum of arrays of one shape, one or more."""
    return functools.reduce(operator.add, arrays)


@also_on(tensors=lambda: _tensorflow.arrays.sum)
def sum(x: Array) -> Array:
    """Of whole numbers, or of floats whose sum is exact: the order is not fixed (see `mean_magnitude`)."""
    return np.sum(x)


@also_on(tensors=lambda: _tensorflow.arrays.sqrt)
def sqrt(x: Array) -> Array:
    """Elementwise."""
    return np.sqrt(x)


@also_on(tensors=lambda: _tensorflow.arrays.divide_no_nan)
def divide_no_nan(x: Array, y: Array) -> Array:
    """Elementwise, 0 where y is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(y == 0, np.zeros((), np.asarray(x).dtype), x / y)


@also_on(tensors=lambda: _tensorflow.arrays.all)
def all(x: Array) -> Array:
    """Whether all elements are true."""
    return np.all(x)


@also_on(tensors=lambda: _tensorflow.arrays.any)
def any(x: Array) -> Array:
    """Whether an element is true."""
    return np.any(x)


@also_on(tensors=lambda: _tensorflow.arrays.max)
def max(x: Array, axis: int | None = None) -> Array:
    """The largest element, or those along an axis; minus infinity of none."""
    return np.max(x, axis, initial=-np.inf)


@also_on(tensors=lambda: _tensorflow.arrays.min)
def min(x: Array) -> Array:
    """The smallest element; infinity of none."""
    return np.min(x, initial=np.inf)


@also_on(tensors=lambda: _tensorflow.arrays.cumulative_sum)
def cumulative_sum(x: Array) -> Array:
    """The sums of the elements before each, 0 at first."""
    return np.cumsum(x) - x


@also_on(tensors=lambda: _tensorflow.arrays.argsort_descending)
def argsort_descending(x: Array) -> Array:
    """The places of the elements of a vector from the largest to the smallest, equal ones in order."""
    return np.argsort(-x, kind="stable")


@also_on(tensors=lambda: _tensorflow.arrays.searchsorted)
def searchsorted(sorted_: Array, values: Array) -> Array:
    """For each value how many elements of the ascending ``sorted_`` are below it; int32."""
    return np.searchsorted(sorted_, values).astype(np.int32)


@also_on(tensors=lambda: _tensorflow.arrays.segment_sum)
def segment_sum(x: Array, segments: Array, count: int) -> Array:
    """``count`` sums of the integers of a vector, each of those with its number in ``segments``."""
    sums = np.zeros(count, x.dtype)
    np.add.at(sums, segments, x)
    return sums
