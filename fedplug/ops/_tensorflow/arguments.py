"""Checks of arguments, while a graph is built and when it runs.

A flaw found while a graph is built is a ValueError or TypeError. A flaw found when it runs is a
`tf.errors.InvalidArgumentError`, from compiled ops and references alike. TensorFlow's own conversions are
not enough: they cut 2.7 to 2 in a graph, and their errors show the contents of tensors.
"""

from __future__ import annotations

from typing import NoReturn, get_args

import numpy as np
import tensorflow as tf

from fedplug.errors import DTypeError, LoweringError, UnknownNameError
from fedplug.kernels.arguments import whole_numbers

_FLOATING = (tf.float32, tf.float64, tf.bfloat16, tf.float16)
_WIDE = _FLOATING[:2]


def require(condition: tf.Tensor, message: str, *details: object) -> tf.Tensor:
    """Raises `tf.errors.InvalidArgumentError` with ``message`` and ``details`` unless ``condition`` holds.

    In a graph it returns an operation for `after`. Eagerly it checks at once.
    """
    return tf.raw_ops.Assert(condition=condition, data=[tf.constant(message), *details], summarize=8)


def after(checks: list[tf.Tensor], tensor: tf.Tensor) -> tf.Tensor:
    """Returns ``tensor``; in a graph it is computed only after ``checks`` have passed."""
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(tensor)


def as_int64(name: str, value: object) -> tf.Tensor:
    """Converts whole numbers to an int64 tensor. See `as_integers`."""
    return as_integers(name, value, tf.int64)


def as_indices(name: str, value: object) -> tf.Tensor:
    """Converts whole numbers to an int32 tensor. See `as_integers`."""
    return as_integers(name, value, tf.int32)


def as_bytes(name: str, value: object) -> tf.Tensor:
    """Converts whole numbers to a uint8 tensor. See `as_integers`."""
    return as_integers(name, value, tf.uint8)


def as_floats(name: str, value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Converts numbers to a tensor of a floating dtype.

    Raises:
        DTypeError: ``value`` is a tensor of another dtype, or holds no numbers.
    """
    if _holds_tensors(value):
        value = tf.convert_to_tensor(value)
    if not tf.is_tensor(value):
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" and array.dtype != tf.bfloat16.as_numpy_dtype:
            raise DTypeError(f"{name} has dtype {array.dtype}; it must be {dtype.name}")
        with np.errstate(over="ignore"):
            return tf.constant(array.astype(dtype.as_numpy_dtype))
    if value.dtype != dtype:
        raise DTypeError(f"{name} has dtype {value.dtype.name}; it must be {dtype.name}")
    return tf.convert_to_tensor(value)


def as_integers(name: str, value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Converts whole numbers to a tensor of an integer dtype.

    Raises:
        DTypeError: ``value`` is anything else, or a tensor of a dtype with numbers that ``dtype`` lacks.
        ArgumentError: A Python number or an element of an array does not fit.
    """
    if _holds_tensors(value):
        value = tf.convert_to_tensor(value)
    if not tf.is_tensor(value):
        return tf.constant(whole_numbers(name, value, dtype.as_numpy_dtype))
    given = value.dtype
    if not given.is_integer or given.min < dtype.min or given.max > dtype.max:
        raise DTypeError(f"{name} has dtype {given.name}; it must be {dtype.name}")
    return tf.cast(value, dtype)


def _holds_tensors(value: object) -> bool:
    return isinstance(value, list | tuple) and any(tf.is_tensor(each) for each in tf.nest.flatten(value))


def same_shape(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Whether two tensors have the same shape at run time. Scalar, bool."""
    x_shape, y_shape = tf.shape(x), tf.shape(y)
    x_rank, y_rank = tf.size(x_shape), tf.size(y_shape)
    shared = tf.minimum(x_rank, y_rank)
    return tf.equal(x_rank, y_rank) & tf.reduce_all(tf.equal(x_shape[:shared], y_shape[:shared]))


def require_floating(**tensors: tf.Tensor) -> None:
    """Raises TypeError unless every tensor has a dtype that the ops support."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _FLOATING:
            known = ", ".join(dtype.name for dtype in _FLOATING)
            raise DTypeError(f"{name} must be one of {known}, not {tensor.dtype.name}")


def require_wide(**tensors: tf.Tensor) -> None:
    """Raises TypeError unless every tensor is float32 or float64, the dtypes of residuals."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _WIDE:
            wide = " or ".join(dtype.name for dtype in _WIDE)
            raise DTypeError(
                f"{name} must be {wide}, not {tensor.dtype.name}; fedplug.ops.widened widens 16 bits"
            )


def require_whole(**values: tf.Tensor) -> None:
    """Raises DTypeError unless every argument is a whole number, or a tensor of them."""
    for name, value in values.items():
        if not tf.is_tensor(value):
            whole_numbers(name, value, np.int64)
        elif not value.dtype.is_integer:
            raise DTypeError(f"{name} has dtype {value.dtype.name}; it must be a whole number")


def refuse_without_op(kind: str, form: str, instead: str) -> NoReturn:
    """Refuses to build a form that has no reference of stock TensorFlow ops.

    Raises:
        LoweringError: Always. The message suggests ``instead``, a form that has a reference.
    """
    raise LoweringError(
        f"the {kind} {form!r} runs in TensorFlow only as a compiled op, and has no reference: install the op "
        f"library (`fedplug doctor` says how) and use a runtime that runs custom ops, such as "
        f"fedplug.use_runtime('inprocess'), or use {instead!r}"
    )


def require_form(what: str, form: str, forms: tf.Tensor) -> None:
    """Raises UnknownNameError unless ``form`` is in ``forms``, a `Literal`. ``what`` names the code."""
    if form not in get_args(forms):
        raise UnknownNameError(what, form, get_args(forms), where="form")


def require_vectors(**tensors: tf.Tensor) -> None:
    """Raises ValueError unless every tensor is a vector or has an unknown rank."""
    for name, tensor in tensors.items():
        if tensor.shape.rank not in (None, 1):
            raise ValueError(f"{name} must be a vector, not of shape {tensor.shape}")


def require_equal_shapes(**tensors: tf.Tensor) -> None:
    """Raises ValueError if the static shapes of two tensors differ."""
    (x_name, x), (y_name, y) = tensors.items()
    if not x.shape.is_compatible_with(y.shape):
        raise ValueError(f"{x_name} has shape {x.shape} but {y_name} has {y.shape}; the two must be equal")
