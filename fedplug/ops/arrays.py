"""Array functions for the steps between ops, on NumPy arrays and TensorFlow tensors.

Names and meanings follow the array API standard (https://data-apis.org/array-api) where it has them. Dtypes
may be given by name. Arithmetic, comparisons and slices need no functions: arrays and tensors have operators.

A Python number beside an array gets the dtype of the array. Floats without an array become float32. NumPy
alone would make float64 of both a scalar with a Python float and of Python floats, and TensorFlow would not.
"""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import fedplug.kernels as kernels
from fedplug.errors import ArgumentError, DTypeError
from fedplug.kernels.arguments import whole, whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.donation import place_for
from fedplug.ops.spec import largest_finite
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.types import Values

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

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
    "identity",
    "max",
    "maximum",
    "minimum",
    "multiply",
    "no_residual",
    "nonzero",
    "repeat",
    "reshape",
    "round",
    "saturate_cast",
    "segment_sum",
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

_T = TypeVar("_T")

_LARGE_BYTES = 2**18
"""Size from which `fedplug.kernels.empty` reuses memory and malloc does not."""


@also_on(tensors=lambda: _tensorflow.arrays.asarray)
def asarray(values: object, like: Array) -> Array:
    """Converts numbers to an array of the kind and dtype of ``like``."""
    dtype = np.dtype(like.dtype)
    if dtype.kind in "iu":
        return whole_numbers("values", values, dtype)
    with np.errstate(over="ignore"):  # an overflow becomes infinite, as in TensorFlow
        return np.asarray(values, dtype)


@also_on(tensors=lambda: _tensorflow.arrays.zeros)
def zeros(spec: Spec) -> Array:
    """Creates an array of zeros with the shape and dtype of a spec."""
    return np.zeros(spec.shape, np.dtype(spec.dtype))


@also_on(tensors=lambda: _tensorflow.arrays.zeros_like)
def zeros_like(x: Array) -> Array:
    """Creates an array of zeros with the shape and dtype of ``x``."""
    return np.zeros(x.shape, x.dtype)


@also_on(tensors=lambda: _tensorflow.arrays.no_residual)
def no_residual(x: Array) -> Array | None:
    """Returns a residual of zeros for ``x`` as an op takes it: None on NumPy arrays."""
    del x
    return None


@also_on(tensors=lambda: _tensorflow.arrays.size)
def size(x: Array) -> Array | int:
    """The number of elements: an int, or an int32 scalar of a tensor. `num_elements` reads static shapes."""
    return np.size(x)


@also_on(tensors=lambda: _tensorflow.arrays.identity)
def identity(x: Array) -> Array:
    """Returns ``x``. In a graph this is an op, which runs under the surrounding control dependencies."""
    return x


@also_on(tensors=lambda: _tensorflow.arrays.astype)
def astype(x: Scalar, dtype: DTypeLike) -> Array:
    """Converts to another dtype: floats round to nearest even, and towards zero for an integer dtype."""
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(dtype, copy=False)


@also_on(tensors=lambda: _tensorflow.arrays.saturate_cast)
def saturate_cast(x: Array, dtype: DTypeLike) -> Array:
    """Converts to another floating dtype. Values out of its range become its largest number."""
    array = np.asarray(x)  # it may be a NumPy scalar
    if array.dtype == np.dtype(dtype) and kernels.all_finite(array):
        return array  # a check is cheaper than a copy
    largest = largest_finite(dtype)
    both = np.promote_types(array.dtype, dtype)  # in which the largest number is one
    return np.asarray(np.clip(array.astype(both, copy=False), -largest, largest)).astype(dtype, copy=False)


@also_on(tensors=lambda: _tensorflow.arrays.reshape)
def reshape(x: Array, shape: Sequence[Array | int]) -> Array:
    """Gives the elements another shape, in row-major order; -1 stands for the remaining size."""
    return np.reshape(np.asarray(x), tuple(shape))  # NumPy would return a scalar for one


@also_on(tensors=lambda: _tensorflow.arrays.transpose)
def transpose(x: Array) -> Array:
    """Transposes a matrix."""
    return np.ascontiguousarray(np.transpose(x))


@also_on(tensors=lambda: _tensorflow.arrays.ensure_shape)
def ensure_shape(x: Array, shape: Sequence[int]) -> Array:
    """Returns ``x`` if it has this shape, and refuses it otherwise."""
    if x.shape != tuple(shape):
        raise ArgumentError(f"an array has shape {x.shape}; it must have {tuple(shape)}")
    return x


@also_on(tensors=lambda: _tensorflow.arrays.concat)
def concat(arrays: Sequence[Array]) -> Array:
    """Concatenates arrays along the first axis."""
    if builtins.sum(np.asarray(each).nbytes for each in arrays) < _LARGE_BYTES:
        return np.concatenate(arrays)
    shape = builtins.sum(map(len, arrays)), *arrays[0].shape[1:]
    return np.concatenate(arrays, out=kernels.empty(shape, np.result_type(*arrays)))


@also_on(tensors=lambda: _tensorflow.arrays.stack)
def stack(arrays: Sequence[Scalar], axis: int = 0) -> Array:
    """Stacks arrays along a new axis."""
    stacked: Array = np.stack(_alike(*arrays), axis)
    return stacked


@also_on(tensors=lambda: _tensorflow.arrays.take)
def take(x: Array, indices: Array) -> Array:
    """The elements at ``indices`` of the first axis, all from 0 to its size less 1."""
    array, places = np.asarray(x), whole_numbers("indices", indices, np.int64)
    if places.size and not 0 <= places.min() <= places.max() < len(array):
        raise ArgumentError(f"indices holds a number that is not from 0 to {len(array) - 1}")
    found: Array = array[places]
    return found


@also_on(tensors=lambda: _tensorflow.arrays.table_lookup)
def table_lookup(table: Sequence[float], position: Scalar, dtype: DTypeLike) -> Array:
    """The entry of ``table`` at ``position``, which is clipped to the valid positions."""
    place = builtins.min(builtins.max(whole("position", position), 0), len(table) - 1)
    entry: Array = np.array(table[place], dtype)[()]  # NumPy's scalar
    return entry


@also_on(tensors=lambda: _tensorflow.arrays.cond)
def cond(condition: Array | np.bool_, if_true: Callable[[], _T], if_false: Callable[[], _T]) -> _T:
    """Calls one of two functions and returns its result."""
    return if_true() if condition else if_false()


@also_on(tensors=lambda: _tensorflow.arrays.nonzero)
def nonzero(x: Array) -> Array:
    """The indices of the nonzero elements of a vector, ascending. int32."""
    return np.flatnonzero(np.asarray(x)).astype(np.int32)


@also_on(tensors=lambda: _tensorflow.arrays.where)
def where(condition: Array | np.bool_ | bool, x: Scalar, y: Scalar) -> Array:
    """Selects elements of ``x`` where the condition holds, and of ``y`` elsewhere."""
    one, other = _alike(x, y)
    return np.where(condition, one, other)


@also_on(tensors=lambda: _tensorflow.arrays.arange)
def arange(end: Scalar, dtype: DTypeLike = "int64") -> Array:
    """The integers from 0 up to but excluding ``end``."""
    wanted = np.dtype(dtype)
    most = int(np.iinfo(wanted).max) if wanted.kind in "iu" else 2**63 - 1
    return np.arange(whole("end", end, 0, most), dtype=wanted)


@also_on(tensors=lambda: _tensorflow.arrays.repeat)
def repeat(x: Array, times: int) -> Array:
    """Repeats every element ``times`` times."""
    return np.repeat(x, whole("times", times, 0))


@also_on(tensors=lambda: _tensorflow.arrays.multiply)
def multiply(x: Scalar, y: Scalar) -> Array:
    """Multiplies elementwise. An overflow becomes infinite without a warning."""
    with np.errstate(over="ignore"):
        return np.asarray(np.multiply(*_alike(x, y)))  # NumPy returns a read-only scalar for rank 0


@also_on(tensors=lambda: _tensorflow.arrays.add_residual)
def add_residual(x: Array, residual: Array) -> Array:
    """``x + residual``, written to the memory of the next residual.

    A donated residual is kept if a sum is NaN or infinite, because a later step refuses that update.
    """
    place = np.asarray(place_for(residual, x))
    if place is residual and kernels.count_nonfinite(x, residual):
        place = kernels.empty(x.shape, x.dtype)
    return np.add(np.asarray(x), residual, out=place)


@also_on(tensors=lambda: _tensorflow.arrays.subtract)
def subtract(x: Array, y: Array) -> Array:
    """Computes ``x - y`` over ``x``, unless the two share memory: the caller must not use ``x`` again."""
    left, right = np.asarray(x), np.asarray(y)
    return np.subtract(left, right, out=None if np.may_share_memory(left, right) else left)


@also_on(tensors=lambda: _tensorflow.arrays.minimum)
def minimum(x: Scalar, y: Scalar) -> Array:
    """The smaller of two elements, elementwise."""
    return np.minimum(*_alike(x, y))


@also_on(tensors=lambda: _tensorflow.arrays.maximum)
def maximum(x: Scalar, y: Scalar) -> Array:
    """The larger of two elements, elementwise."""
    return np.maximum(*_alike(x, y))


@also_on(tensors=lambda: _tensorflow.arrays.clip)
def clip(x: Array, lowest: Scalar, highest: Scalar) -> Array:
    """Limits every element to the range from ``lowest`` to ``highest``."""
    return np.clip(*_alike(x, lowest, highest))


@also_on(tensors=lambda: _tensorflow.arrays.floor)
def floor(x: Scalar) -> Array:
    """Rounds every element down."""
    floors: Array = np.floor(*_alike(x))
    return floors


@also_on(tensors=lambda: _tensorflow.arrays.round)
def round(x: Scalar) -> Array:
    """Rounds every element to the nearest whole number, ties to even."""
    rounded: Array = np.round(*_alike(x))
    return rounded


@also_on(tensors=lambda: _tensorflow.arrays.add_n)
def add_n(arrays: Sequence[Array]) -> Array:
    """The sum of one or more arrays of one shape."""
    return functools.reduce(operator.add, arrays)


@also_on(tensors=lambda: _tensorflow.arrays.sum)
def sum(x: Array) -> Array:
    """The sum of integers, or of floats whose sum is exact: the order varies (see `mean_magnitude`)."""
    total: Array = np.sum(x)
    return total


@also_on(tensors=lambda: _tensorflow.arrays.sqrt)
def sqrt(x: Scalar) -> Array:
    """The square root of every element."""
    roots: Array = np.sqrt(*_alike(x))
    return roots


@also_on(tensors=lambda: _tensorflow.arrays.divide_no_nan)
def divide_no_nan(x: Scalar, y: Scalar) -> Array:
    """``x / y`` elementwise, and 0 where ``y`` is 0."""
    dividend, divisor = _alike(x, y)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(divisor == 0, np.zeros((), np.asarray(dividend).dtype), dividend / divisor)


@also_on(tensors=lambda: _tensorflow.arrays.all)
def all(x: Array) -> Array | np.bool_:
    """Whether all elements are true."""
    return np.all(x)


@also_on(tensors=lambda: _tensorflow.arrays.any)
def any(x: Array) -> Array | np.bool_:
    """Whether at least one element is true."""
    return np.any(x)


@also_on(tensors=lambda: _tensorflow.arrays.max)
def max(x: Array, axis: int | None = None) -> Array:
    """The largest element, or the largest along an axis. Minus infinity for an empty array."""
    largest: Array = np.max(x, axis, initial=-np.inf)
    return largest


@also_on(tensors=lambda: _tensorflow.arrays.cumulative_sum)
def cumulative_sum(x: Array) -> Array:
    """The exclusive cumulative sum: element i is the sum of the elements before i."""
    return np.cumsum(x) - x


@also_on(tensors=lambda: _tensorflow.arrays.argsort_descending)
def argsort_descending(x: Array) -> Array:
    """The indices that sort a vector from largest to smallest. Equal elements keep their order."""
    return np.argsort(-x, kind="stable")


@also_on(tensors=lambda: _tensorflow.arrays.segment_sum)
def segment_sum(x: Array, segments: Array, count: int) -> Array:
    """The sums of the elements of an integer vector in each of ``count`` segments."""
    sums = np.zeros(whole("count", count, 0), x.dtype)
    places = whole_numbers("segments", segments, np.int64)
    if places.size and not 0 <= places.min() <= places.max() < sums.size:
        raise ArgumentError(f"segments holds a number that is not from 0 to {sums.size - 1}")
    np.add.at(sums, places, x)
    return sums


def _alike(*values: Any) -> tuple[Values, ...]:
    """Gives Python numbers the dtype of the arrays beside them.

    Raises:
        DTypeError: A float is beside an array of whole numbers.
        ArgumentError: A whole number does not fit the dtype of the array.
    """
    dtypes = [value.dtype for value in values if hasattr(value, "dtype")]
    if len(dtypes) == len(values):
        return values
    dtype = dtypes[0] if dtypes else np.result_type(*values)
    if dtype == np.float64 and not dtypes:
        dtype = np.dtype(np.float32)
    return tuple(value if hasattr(value, "dtype") else _as(value, dtype) for value in values)


def _as(value: object, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    if dtype.kind in "iu":
        return whole_numbers("a number", value, dtype)
    if dtype == np.bool_ and not isinstance(value, bool):
        raise DTypeError(f"a number of type {type(value).__name__} is beside an array of bool")
    with np.errstate(over="ignore"):
        return np.asarray(value, dtype)
