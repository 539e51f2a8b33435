"""Gradients of the ops: there are none, and a request for one is an error instead of None.

Codes are bytes, through which TensorFlow sends no gradient in any case, as through a cast to integers: their
ops need no registration.
"""

from __future__ import annotations

from typing import NoReturn

import tensorflow as tf

_BETWEEN_FLOATS = (
    "GroupedTopKResidual",
    "LowRankMatrix",
    "MatrixTimes",
    "ScatterDecode",
    "ScatterDecodeAdd",
    "TakeFromSum",
)
_REASON = (
    "the selections, sums and products of fedplug.ops have no gradients; take the gradient before this op, "
    "pass it tf.stop_gradient(x) if none shall flow through it, or define one with tf.custom_gradient, see "
    "docs/ops.md"
)


def register() -> None:
    """Registers the refusals of the compiled ops; to be called once, with the op library."""
    for name in _BETWEEN_FLOATS:
        tf.RegisterGradient(f"Fedplug>{name}")(_refuse)


def refuse_gradient(x: tf.Tensor) -> tf.Tensor:
    """Returns a float tensor of a reference, and refuses gradients through it as the compiled op does."""
    return tf.raw_ops.PreventGradient(input=x, message=_REASON)


def _refuse(op: tf.Tensor, *gradients: tf.Tensor) -> NoReturn:
    del gradients
    raise LookupError(f"{op.type}: {_REASON}")
