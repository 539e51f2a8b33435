"""Top-k sparsification with error feedback.

The same where the residual is a variable: `fedplug.ops.topk_update`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from fedplug.errors import ArgumentError
from fedplug.ops import _loader
from fedplug.ops._arguments import as_int64, require_equal_shapes, require_floating, require_policy
from fedplug.ops._reference import topk as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["GroupedTopK", "TopK", "grouped_topk_residual", "topk_residual"]

tf.no_gradient("Fedplug>GroupedTopKResidual")


class TopK(NamedTuple):
    """What `topk_residual` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[min(k, n)]``, the dtype of ``delta``.
        indices: Their places in the flattened update, strictly ascending. Shape ``[min(k, n)]``, int32.
        residual: What is left for the next round. Shape and dtype of ``delta``.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: tf.Tensor
    indices: tf.Tensor
    residual: tf.Tensor
    nonfinite: tf.Tensor


class GroupedTopK(NamedTuple):
    """What `grouped_topk_residual` returns.

    Attributes:
        values: The entries taken, tensor after tensor, with their sign. ``[min(k, n)]``, the dtype of the
            deltas.
        indices: Their places in their own flattened tensor, strictly ascending in each. ``[min(k, n)]``,
            int32.
        row_splits: Entries ``row_splits[t]`` up to ``row_splits[t + 1]`` are those of tensor t. ``[tensors +
            1]``, int64.
        residuals: What is left for the next round. Shapes and dtype of the deltas.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: tf.Tensor
    indices: tf.Tensor
    row_splits: tf.Tensor
    residuals: list[tf.Tensor]
    nonfinite: tf.Tensor


def topk_residual(
    delta: Any, residual: Any, k: Any, *, on_nonfinite: str = "error", lowering: str | None = None
) -> TopK:
    """Takes the ``k`` largest entries out of ``a = delta + residual`` and keeps the rest for the next round.

    Exactly ``min(k, n)`` entries of largest magnitude leave; ties go to the lower index. The residual is
    ``a`` with these entries set to zero, so scattering the values into it gives ``a`` back, bit for bit. Not
    differentiable.

    The compiled op keeps denormal numbers; the reference takes them for zero, as TensorFlow's threads do
    (float16, whose denormals are computed in float32, is not affected). Everything else is the same, bit for
    bit.

    Source: Stich et al., "Sparsified SGD with memory", NeurIPS 2018, algorithm 1.

    Args:
        delta: The update of this round; any shape of ``n < 2^31`` elements; float32, float64, bfloat16 or
            float16.
        residual: What earlier rounds left behind; shape and dtype of ``delta``.
        k: How many entries to take, an integer scalar, 0 or more.
        on_nonfinite: "error" refuses an update in which a sum is NaN or infinite; "drop" takes such a sum for
            zero.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Raises:
        TypeError: ``delta`` is not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, the shapes differ, or a sum is not
            finite.
    """
    require_policy(on_nonfinite)
    delta = tf.convert_to_tensor(delta)
    residual = tf.convert_to_tensor(residual, delta.dtype)
    require_floating(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    k = as_int64(k)
    if resolve_lowering(lowering) == "fused":
        op = _loader.library().fedplug_grouped_top_k_residual
        taken = GroupedTopK(*op([delta], [residual], k, on_nonfinite=on_nonfinite))
        return TopK(taken.values, taken.indices, taken.residuals[0], taken.nonfinite)
    return TopK(*reference.topk_residual(delta, residual, k, on_nonfinite))


def grouped_topk_residual(
    deltas: Sequence[Any],
    residuals: Sequence[Any],
    k: Any,
    *,
    on_nonfinite: str = "error",
    lowering: str | None = None,
) -> GroupedTopK:
    """Does what `topk_residual` does for a list of tensors laid end to end, which the compiled op never are.

    Exactly ``min(k, n)`` of all n entries leave, those of largest magnitude; ties go to the lower tensor,
    then to the lower index. A tensor may lose many entries or none. What `topk_residual` says of denormal
    numbers holds.

    Args:
        deltas: The update of this round; at least one tensor, any shapes of ``n < 2^31`` elements together;
            all of float32, float64, bfloat16 or float16.
        residuals: What earlier rounds left behind; as many, each with shape and dtype of its delta.
        k: How many entries to take of all tensors together, an integer scalar, 0 or more.
        on_nonfinite: As for `topk_residual`.
        lowering: As for `topk_residual`.

    Raises:
        ArgumentError: There are no deltas, or not as many residuals as deltas.
        TypeError: A delta is not of one of these dtypes, or the dtypes differ.
        ValueError: The static shapes of a delta and its residual differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, shapes differ, or a sum is not finite.
    """
    require_policy(on_nonfinite)
    if not deltas or len(deltas) != len(residuals):
        raise ArgumentError(
            f"there are {len(deltas)} deltas and {len(residuals)} residuals; give at least one, and as many "
            "of these as of those"
        )
    deltas = [tf.convert_to_tensor(delta) for delta in deltas]
    residuals = [tf.convert_to_tensor(r, d.dtype) for r, d in zip(residuals, deltas, strict=True)]
    dtypes = sorted({delta.dtype.name for delta in deltas})
    if len(dtypes) > 1:
        raise TypeError(f"the deltas must be of one dtype, not {' and '.join(dtypes)}")
    for t, (delta, residual) in enumerate(zip(deltas, residuals, strict=True)):
        require_floating(**{f"delta {t}": delta})
        require_equal_shapes(**{f"delta {t}": delta, f"residual {t}": residual})
    k = as_int64(k)
    if resolve_lowering(lowering) == "fused":
        op = _loader.library().fedplug_grouped_top_k_residual
        return GroupedTopK(*op(deltas, residuals, k, on_nonfinite=on_nonfinite))
    return GroupedTopK(*reference.grouped_topk_residual(deltas, residuals, k, on_nonfinite))
