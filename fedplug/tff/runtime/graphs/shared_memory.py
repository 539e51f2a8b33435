"""Tensors in the memory of NumPy arrays.

Uses a private part of TensorFlow 2.14, what makes its eager tensors: the public ways copy every array.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import ops

from fedplug.stores.read_only import can_be_written

__all__ = ["tensor_of"]


def tensor_of(array: NDArray[Any]) -> tf.Tensor:
    """The values of an array: where they lie, if it is aligned and nobody can write to it, else a copy.

    TensorFlow writes no result over what it does not own, so the array stays as it is.
    """
    if can_be_written(array):
        return tf.constant(array)
    context = eager_context.context()
    context.ensure_initialized()
    return ops.EagerTensor(array, context.device_name, None)
