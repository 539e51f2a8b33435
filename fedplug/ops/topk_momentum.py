"""Top-k with momentum correction: what Deep Gradient Compression does with an update."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._arguments import as_int64, require_equal_shapes, require_floating, require_policy
from fedplug.ops._reference import topk_momentum as reference
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.topk import topk_residual

__all__ = ["TopKMomentum", "topk_momentum"]

tf.no_gradient("Fedplug>TopKMomentum")


class TopKMomentum(NamedTuple):
    """What `topk_momentum` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[min(k, n)]``, the dtype of ``gradient``.
        indices: Their places in the flattened gradient, strictly ascending. Shape ``[min(k, n)]``, int32.
        velocity: For the next round. Shape and dtype of ``gradient``.
        residual: For the next round. Shape and dtype of ``gradient``.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: tf.Tensor
    indices: tf.Tensor
    velocity: tf.Tensor
    residual: tf.Tensor
    nonfinite: tf.Tensor


def topk_momentum(
    gradient: Any,
    velocity: Any,
    residual: Any,
    k: Any,
    *,
    momentum: Any,
    on_nonfinite: str = "error",
    lowering: str | None = None,
) -> TopKMomentum:
    """Takes the ``k`` largest entries of ``a = residual + u``, where ``u = momentum * velocity + gradient``.

    Each product and sum is rounded once. The new velocity is ``u`` and the new residual ``a``, both with the
    entries taken set to zero (momentum factor masking). Of denormals `topk_residual` says what holds here.

    Source: Lin, Han, Mao, Wang, Dally, "Deep Gradient Compression", ICLR 2018 (arXiv 1712.01887), sections
    3.1 and 3.2.

    Args:
        gradient: The update of this round; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16. The 16-bit types have no kernel of their own: they take one pass more.
        velocity: Of the round before; shape and dtype of ``gradient``.
        residual: What earlier rounds left behind; shape and dtype of ``gradient``.
        k: How many entries to take, an integer scalar, 0 or more.
        momentum: The factor of the old velocity; scalar, rounded to the dtype.
        on_nonfinite: As for `topk_residual`; with "drop" the velocity, too, is zero where ``a`` is not
            finite.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Raises:
        TypeError: ``gradient`` is not of one of these dtypes.
        ValueError: The static shapes differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, the shapes differ, or a sum is not
            finite.
    """
    require_policy(on_nonfinite)
    gradient = tf.convert_to_tensor(gradient)
    velocity, residual, momentum = (
        tf.convert_to_tensor(x, gradient.dtype) for x in (velocity, residual, momentum)
    )
    require_floating(gradient=gradient)
    require_equal_shapes(gradient=gradient, velocity=velocity)
    require_equal_shapes(gradient=gradient, residual=residual)
    k = as_int64(k)
    chosen = resolve_lowering(lowering)
    if chosen == "fused" and gradient.dtype in (tf.float32, tf.float64):
        op = _loader.library().fedplug_top_k_momentum
        return TopKMomentum(*op(gradient, momentum, velocity, residual, k, on_nonfinite=on_nonfinite))

    def topk(delta: Any, before: Any) -> Any:
        return topk_residual(delta, before, k, on_nonfinite=on_nonfinite, lowering=chosen)

    return TopKMomentum(*reference.topk_momentum(gradient, momentum, velocity, residual, topk))
