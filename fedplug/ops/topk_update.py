"""Top-k with error feedback where the residual is a variable, which is updated in place.

What TensorFlow's optimizers do with their slots: no second residual is ever written. Must not know what a
payload is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from fedplug.errors import ArgumentError
from fedplug.ops import _loader
from fedplug.ops._arguments import after, as_int64, require_equal_shapes, require_policy, require_variable
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.topk import grouped_topk_residual, topk_residual

__all__ = ["GroupedTopKUpdate", "TopKUpdate", "grouped_topk_residual_update", "topk_residual_update"]

tf.no_gradient("Fedplug>ResourceTopKResidual")


class TopKUpdate(NamedTuple):
    """What `topk_residual_update` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[min(k, n)]``, the dtype of the residual.
        indices: Their places in the flattened update, strictly ascending. Shape ``[min(k, n)]``, int32.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: tf.Tensor
    indices: tf.Tensor
    nonfinite: tf.Tensor


class GroupedTopKUpdate(NamedTuple):
    """What `grouped_topk_residual_update` returns.

    Attributes:
        values: The m entries taken, tensor after tensor, with their sign. ``[m]``, the dtype of the
            residuals.
        indices: Their places in their own flattened tensor, strictly ascending in each. ``[m]``, int32.
        row_splits: Entries ``row_splits[t]`` up to ``row_splits[t + 1]`` are those of tensor t. ``[tensors +
            1]``, int64.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: tf.Tensor
    indices: tf.Tensor
    row_splits: tf.Tensor
    nonfinite: tf.Tensor


def topk_residual_update(
    residual: tf.Variable, delta: Any, k: Any, *, on_nonfinite: str = "error", lowering: str | None = None
) -> TopKUpdate:
    """Does what `fedplug.ops.topk_residual` does, and leaves the new residual in the variable it came from.

    The compiled op locks the variable and writes into its buffer, or into a new one if somebody still holds
    what was read from it before; that never changes. After an error the variable is what it was. The
    reference reads, and assigns.

    Args:
        residual: What earlier rounds left behind; any shape of ``n < 2^31`` elements; float32, float64,
            bfloat16 or float16.
        delta: The update of this round; shape and dtype of ``residual``.
        k: How many entries to take, an integer scalar, 0 or more.
        on_nonfinite: As for `topk_residual`. The compiled op reads everything twice under "error", because
            it must see every sum before it writes one, and once under "drop".
        lowering: As for `topk_residual`.

    Raises:
        ArgumentError: ``k`` is not a scalar.
        TypeError: ``residual`` is no variable, or not of one of these dtypes.
        ValueError: The static shapes of ``delta`` and ``residual`` differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.FailedPreconditionError: When run: the variable is not initialized.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, the shapes differ, or a sum is not
            finite.
    """
    require_policy(on_nonfinite)
    (delta,) = _deltas_of([residual], [delta], [""])
    k = as_int64(k)
    if k.shape != []:
        raise ArgumentError(f"k must be a scalar, not of shape {k.shape}")
    if resolve_lowering(lowering) == "fused":
        op = _loader.library().fedplug_resource_top_k_residual
        values, indices, _, nonfinite = op([residual.handle], [delta], k, on_nonfinite=on_nonfinite)
        return TopKUpdate(values, indices, nonfinite)
    taken = topk_residual(delta, residual.read_value(), k, on_nonfinite=on_nonfinite, lowering="reference")
    assigned = _assign([residual], [taken.residual])
    return TopKUpdate(*(after(assigned, x) for x in (taken.values, taken.indices, taken.nonfinite)))


def grouped_topk_residual_update(
    residuals: Sequence[tf.Variable],
    deltas: Sequence[Any],
    k: Any,
    *,
    on_nonfinite: str = "error",
    lowering: str | None = None,
) -> GroupedTopKUpdate:
    """Does what `topk_residual_update` does for a whole model: a list of variables, never laid end to end.

    The list is one update: after an error all variables are what they were.

    Args:
        residuals: What earlier rounds left behind; at least one variable, none twice, any shapes, one dtype
            out of float32, float64, bfloat16 and float16.
        deltas: The update of this round; as many, each with shape and dtype of its residual.
        k: How many entries to take: an integer vector with one number for each tensor; or a scalar for all,
            and then the k entries of largest magnitude of all tensors together leave (ties go to the lower
            tensor, then to the lower index), which for this must have fewer than 2^31 elements together.
        on_nonfinite: As for `topk_residual_update`.
        lowering: As for `topk_residual`.

    Raises:
        ArgumentError: There are no residuals, one is listed twice, there are not as many deltas, or ``k`` is
            neither a scalar nor a vector with as many elements.
        TypeError: A residual is no variable, or not of one of these dtypes, or the dtypes differ.
        ValueError: The static shapes of a delta and its residual differ.
        UnknownNameError: ``on_nonfinite`` or ``lowering`` is not one of the words.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.FailedPreconditionError: When run: a variable is not initialized.
        tf.errors.InvalidArgumentError: When run: ``k`` is negative, shapes differ, or a sum is not finite.
    """
    require_policy(on_nonfinite)
    _require_a_delta_each(residuals, deltas)
    deltas = _deltas_of(residuals, deltas, [f" {t}" for t in range(len(deltas))])
    k = as_int64(k)
    if k.shape != [] and k.shape != [len(residuals)]:
        raise ArgumentError(
            f"k has shape {k.shape}; give one number for all of the {len(residuals)} tensors, or one for each"
        )
    if resolve_lowering(lowering) == "fused":
        op = _loader.library().fedplug_resource_top_k_residual
        return GroupedTopKUpdate(*op([r.handle for r in residuals], deltas, k, on_nonfinite=on_nonfinite))
    return _reference_of_group(residuals, deltas, k, on_nonfinite)


def _require_a_delta_each(residuals: Sequence[tf.Variable], deltas: Sequence[Any]) -> None:
    if not residuals or len(residuals) != len(deltas):
        raise ArgumentError(
            f"there are {len(residuals)} residuals and {len(deltas)} deltas; give at least one, and as many "
            "of these as of those"
        )
    if len({id(residual) for residual in residuals}) < len(residuals):
        raise ArgumentError("a residual is listed twice; one update can change a variable only once")


def _deltas_of(residuals: Sequence[tf.Variable], deltas: Sequence[Any], names: list[str]) -> list[tf.Tensor]:
    """The deltas as tensors that fit variables, which are such, and of one dtype."""
    require_variable(**{f"residual{name}": r for name, r in zip(names, residuals, strict=True)})
    dtypes = sorted({residual.dtype.name for residual in residuals})
    if len(dtypes) > 1:
        raise TypeError(f"the residuals must be of one dtype, not {' and '.join(dtypes)}")
    deltas = [tf.convert_to_tensor(d, r.dtype) for d, r in zip(deltas, residuals, strict=True)]
    for residual, delta, name in zip(residuals, deltas, names, strict=True):
        require_equal_shapes(**{f"delta{name}": delta, f"residual{name}": residual})
    return deltas


def _reference_of_group(residuals: Any, deltas: Any, k: Any, on_nonfinite: str) -> GroupedTopKUpdate:
    before = [residual.read_value() for residual in residuals]
    policy = {"on_nonfinite": on_nonfinite, "lowering": "reference"}
    if k.shape.rank == 0:
        taken = grouped_topk_residual(deltas, before, k, **policy)
        rest = taken.residuals
        found = taken.values, taken.indices, taken.row_splits, taken.nonfinite
    else:
        each = [
            topk_residual(d, b, k[t], **policy) for t, (d, b) in enumerate(zip(deltas, before, strict=True))
        ]
        rest = [taken.residual for taken in each]
        sizes = [tf.size(taken.values, tf.int64) for taken in each]
        found = (
            tf.concat([taken.values for taken in each], 0),
            tf.concat([taken.indices for taken in each], 0),
            tf.concat([[0], tf.cumsum(tf.stack(sizes))], 0),
            tf.add_n([taken.nonfinite for taken in each]),
        )
    assigned = _assign(residuals, rest)
    return GroupedTopKUpdate(*(after(assigned, x) for x in found))


def _assign(variables: Sequence[tf.Variable], values: Sequence[Any]) -> list[Any]:
    """Assigns all of the values, but only once there are all of them: what refuses one refuses all."""
    with tf.control_dependencies(list(values)):
        return [v.assign(value, read_value=False) for v, value in zip(variables, values, strict=True)]
