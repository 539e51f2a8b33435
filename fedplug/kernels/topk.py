"""Takes the largest entries of an update and leaves the others in a residual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from fedplug import _kernels
from fedplug.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedplug.kernels.index_code import IndexForm

__all__ = [
    "OnNonFinite",
    "count_nonfinite",
    "frame_topk",
    "grouped_topk_residual",
    "topk_momentum",
    "topk_residual",
]

OnNonFinite: TypeAlias = Literal["error", "drop"]


def topk_residual(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    k: int,
    *,
    on_nonfinite: OnNonFinite = "error",
    out: tuple[NDArray[Any], NDArray[np.int32]] | None = None,
    residual_out: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Takes the k largest entries of ``a = delta + residual`` and leaves the others in ``residual``.

    Exactly ``min(k, n)`` entries with the largest ``|a|`` are chosen; ties go to the lower index. Values keep
    their sign. ``residual`` becomes ``a`` with the chosen entries set to +0, so that putting the values back
    into their places gives ``a`` bit for bit: nothing is lost (error feedback, Seide et al., Interspeech
    2014; Stich et al., "Sparsified SGD with memory", NeurIPS 2018).

    Args:
        delta: The update; any shape, n elements, float32 or float64. Not changed.
        residual: What earlier rounds left behind; n elements, the dtype of ``delta``. Updated in place,
            unless ``residual_out`` is given. None, which needs ``residual_out``, is as zeros.
        k: How many entries to take; ``k >= 0``, and more than n means all.
        on_nonfinite: With ``"error"``, a sum that is NaN or infinite raises and nothing is changed; every
            sum must then be seen before the first is written in place, which costs one more read of both
            arrays.
            With ``"drop"``, such a sum counts as zero: it leaves nothing in ``residual``, and is chosen (as a
            zero) only where zeros are needed to reach k. Call :func:`count_nonfinite` first to learn how many
            there are.
        out: ``(values, indices)`` of an earlier call, to be written over. With large k that saves most of the
            time: memory that was never touched costs more than the selection. After an error it holds
            anything.
        residual_out: n elements, the dtype of ``delta``: where the new residual goes, whatever is there.
            After an error it holds anything.

    Returns:
        ``(values, indices)``, those of ``out`` where it is given: the chosen entries, ``[min(k, n)]`` in the
        dtype of ``delta``, and their flat positions, ``[min(k, n)]`` int32, strictly ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or ``k`` is negative.
        NonFiniteError: Under ``"error"``; its ``count`` is the number of sums that are not finite.
        MemoryError: Nothing is lost; a residual updated in place may hold the sums (what k = 0 leaves), with
            the delta in them. One that goes to ``residual_out`` is as it was.
    """
    return _kernels.topk_residual(delta, residual, k, _drops(on_nonfinite), out, residual_out)


def frame_topk(
    delta: NDArray[Any],
    residual: NDArray[Any] | None,
    k: int,
    header: bytes,
    *,
    form: IndexForm = "rice",
    residual_out: NDArray[Any] | None = None,
) -> bytes:
    """The container of the sparse payload that the k largest entries make.

    What :func:`topk_residual` and :func:`frame_entries` do one after the other, with the same bits and
    errors.

    Args:
        delta: As for :func:`topk_residual`.
        residual: As for :func:`topk_residual`.
        k: As for :func:`topk_residual`.
        header: As for :func:`frame`.
        form: Of the index code.
        residual_out: As for :func:`topk_residual`.

    Raises:
        ArgumentError: As for :func:`topk_residual`, or there is no such form.
        NonFiniteError: A sum is NaN or infinite; its ``count`` says how many are.
        MemoryError: As for :func:`topk_residual`; after the choice, its entries are lost.
    """
    return _kernels.frame_topk(delta, residual, k, header, form, residual_out)


def grouped_topk_residual(
    deltas: Sequence[NDArray[Any]],
    residuals: Sequence[NDArray[Any] | None],
    k: int | Sequence[int],
    *,
    on_nonfinite: OnNonFinite = "error",
    out: tuple[NDArray[Any], NDArray[np.int32]] | None = None,
    residuals_out: Sequence[NDArray[Any]] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
    """Does what :func:`topk_residual` does for a whole model: a list of tensors, which are not concatenated.

    The list is one update: under ``"error"`` a sum that is not finite in any tensor leaves all of them as
    they were.

    Args:
        deltas: At least one array; any shapes, float32 or float64.
        residuals: As many arrays, each with the size and dtype of its delta. Updated in place, unless
            ``residuals_out`` is given; then any of them may be None, which is as zeros.
        k: One number for each tensor; or a single one for all, and then the k entries with the largest
            ``|a|`` of all tensors together are chosen (ties go to the lower tensor, then to the lower index).
        on_nonfinite: As for :func:`topk_residual`.
        out: ``(values, indices)`` of an earlier call with as many entries, to be written over; as for
            :func:`topk_residual`.
        residuals_out: As many arrays, each with the size and dtype of its delta: where the new residuals go.
            After an error they hold anything.

    Returns:
        ``(values, indices, row_splits)``: entries ``row_splits[t]`` up to ``row_splits[t + 1]`` are those of
        tensor t, in the dtype of the deltas, with their flat int32 positions in that tensor, strictly
        ascending. ``row_splits`` is ``[tensors + 1]`` int64.

    Raises:
        ArgumentError: As for :func:`topk_residual`; or there is not one residual, or one k, per tensor; or
            the tensors of a single k have 2**31 elements or more together.
        NonFiniteError: Under ``"error"``; the message names the first tensor.
    """
    shared = isinstance(k, int | np.integer)
    ks = [k] if shared else list(cast("Sequence[int]", k))
    return _kernels.grouped_topk_residual(
        list(deltas),
        list(residuals),
        cast("list[int]", ks),
        shared,
        _drops(on_nonfinite),
        out,
        None if residuals_out is None else list(residuals_out),
    )


def topk_momentum(
    gradient: NDArray[Any],
    velocity: NDArray[Any],
    residual: NDArray[Any],
    k: int,
    *,
    momentum: float,
    on_nonfinite: OnNonFinite = "error",
    velocity_out: NDArray[Any] | None = None,
    residual_out: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Momentum correction and factor masking of Deep Gradient Compression, in one pass over the arrays.

    ``velocity = momentum * velocity + gradient``, then ``residual = residual + velocity``, each product and
    sum rounded once. The k entries of the residual with the largest magnitude are taken out, and both arrays
    become +0 there (Lin et al., ICLR 2018, sections 3.1 and 3.2).

    Args:
        gradient: Any shape, n elements, float32 or float64. Not changed.
        velocity: n elements, the dtype of ``gradient``. Updated in place, unless ``velocity_out`` is given.
        residual: n elements, the dtype of ``gradient``. Updated in place, unless ``residual_out`` is given.
        k: How many entries to take; ``k >= 0``, and more than n means all.
        momentum: The factor of the old velocity, rounded to the dtype.
        on_nonfinite: As for :func:`topk_residual`; with ``"drop"``, both arrays become +0 where the new
            residual is not finite.
        velocity_out: n elements, the dtype of ``gradient``: where the new velocity goes, whatever is there.
            After an error it holds anything.
        residual_out: The same for the new residual.

    Returns:
        ``(values, indices)`` as :func:`topk_residual` gives them.

    Raises:
        ArgumentError: An array cannot be used, sizes differ, two arrays share memory, or ``k`` is negative.
        NonFiniteError: Under ``"error"``; ``velocity`` and ``residual`` are then unchanged.
    """
    return _kernels.topk_momentum(
        gradient, momentum, velocity, residual, k, _drops(on_nonfinite), velocity_out, residual_out
    )


def count_nonfinite(delta: NDArray[Any], residual: NDArray[Any] | None) -> int:
    """Counts the entries of ``delta + residual`` that are NaN or infinite.

    That is how many entries the policy ``"drop"`` of :func:`topk_residual` would count as zero.

    Args:
        delta: Any shape, n elements, float32 or float64.
        residual: n elements, the dtype of ``delta``; or None, which is as zeros.

    Returns:
        The number of sums that are not finite. The sum of two finite numbers may be one of them.

    Raises:
        ArgumentError: An array cannot be used, or the two differ in size.
    """
    return _kernels.count_nonfinite(delta, residual)


def _drops(on_nonfinite: OnNonFinite) -> bool:
    if on_nonfinite not in ("error", "drop"):
        raise ArgumentError(f"on_nonfinite is {on_nonfinite!r}; it must be 'error' or 'drop'")
    return on_nonfinite == "drop"
