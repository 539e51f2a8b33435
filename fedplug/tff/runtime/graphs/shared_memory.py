"""Tensors that share the memory of NumPy arrays.

This module uses TensorFlow 2.14's private constructor of eager tensors. Public functions copy every array.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import ops

from fedplug.stores.base import can_be_written

__all__ = ["tensor_of"]


def tensor_of(array: NDArray[Any]) -> tf.Tensor:
    """Returns a tensor that shares the array's memory if it is aligned and read-only, else a copy.

    TensorFlow never overwrites memory that it does not own.
    """
    if can_be_written(array):
        return tf.constant(array)
    context = eager_context.context()
    context.ensure_initialized()
    return ops.EagerTensor(array, context.device_name, None)
