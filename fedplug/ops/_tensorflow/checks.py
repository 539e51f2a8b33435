"""`fedplug.ops.checks` on tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_int64
from fedplug.ops.lowering import resolve_lowering


def require(condition: tf.Tensor, message: str) -> AbstractContextManager[object]:
    context: AbstractContextManager[object] = tf.control_dependencies(
        [tf.debugging.Assert(condition, [message])]
    )
    return context


def of_length(data: tf.Tensor, length: tf.Tensor | int, what: str) -> tf.Tensor:
    needed = as_int64("length", length)
    message = f"{what} have the wrong length"
    if isinstance(length, int):
        message += f"; there must be {length}"
    fits = tf.equal(tf.size(data, tf.int64), needed)
    with require(fits, message):
        return tf.identity(data)


def require_finite(x: tf.Tensor, what: str) -> tf.Tensor:
    del what
    return x


def all_finite(xs: tf.Tensor | list[tf.Tensor]) -> tf.Tensor:
    xs = [tf.convert_to_tensor(x) for x in (xs if isinstance(xs, list) else [xs])]
    if resolve_lowering() == "fused":
        return loader.library().fedplug_all_finite(xs)
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in xs])
