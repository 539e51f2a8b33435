"""Traces TensorFlow functions as TFF computations, with their ops in a chosen lowering."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.ops.lowering import use_lowering
from fedplug.tff import structures

__all__ = ["trace"]


def trace(lowering: str, function: Callable[..., Any], *types: Any) -> Any:
    """Returns a `tff.tensorflow.computation` with the ops in that lowering.

    The body is first traced as a TensorFlow 2 function: in the graphs of TFF, ``==`` between tensors compares
    Python objects.
    """
    specs = [
        tf.TensorSpec(t.shape, t.dtype) for type_spec in types for t in structures.tensor_types(type_spec)
    ]

    @tf.function(autograph=False, input_signature=specs)
    def on_leaves(*leaves: tf.Tensor) -> Any:
        remaining = iter(leaves)
        args = [structures.unflatten([next(remaining) for _ in structures.tensor_types(t)], t) for t in types]
        with use_lowering(lowering):
            return function(*args)

    concrete = on_leaves.get_concrete_function()
    signature = inspect.signature(function)

    @functools.wraps(function)  # TFF reads the signature to know how to unpack its argument
    def traced(*args: Any, **kwargs: Any) -> Any:
        values = signature.bind(*args, **kwargs).args
        return concrete(
            *[leaf for v, t in zip(values, types, strict=True) for leaf in structures.flatten(v, t)]
        )

    return tff.tensorflow.computation(traced, *types)
