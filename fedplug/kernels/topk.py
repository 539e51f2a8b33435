"""Selection of the largest entries of an update. The others stay in a residual."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

import fedplug._kernels as _kernels
from fedplug.errors import ArgumentError
from fedplug.kernels.arguments import real, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fedplug.types import Array, OnNonFinite, Scalar, Values


__all__ = [
    "OnNonFinite",
    "chunked_topk_residual",
    "grouped_topk_residual",
    "topk_residual",
]


def topk_residual(
    delta: Array,
    residual: Array | None,
    k: Array | int,
    *,
    on_nonfinite: OnNonFinite = "error",
    out: tuple[Array, Array] | None = None,
    residual_out: Array | None = None,
) -> tuple[Values, NDArray[np.int32]]:
    """Selects the k largest entries of ``a = delta + residual``. The others stay in ``residual``.

    Selects the ``min(k, n)`` entries with the largest ``|a|``; of equal magnitudes, those with the lower
    index. ``residual`` becomes ``a`` with the selected entries set to +0: scattering the values into it
    restores ``a`` bit for bit (error feedback, Seide et al., Interspeech 2014; Stich et al., "Sparsified SGD
    with memory", NeurIPS 2018).

    Args:
        delta: The update. n elements in any shape, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        k: Number of entries to select; 0 or more. More than n means all.
        on_nonfinite: ``"error"`` refuses NaN and infinite sums and changes nothing. An update in place must
            then check every sum before it writes, which reads both arrays once more. ``"drop"`` counts such a
            sum as zero: it leaves nothing in ``residual``, and is selected, as a zero, only if there are
            fewer than k others. :func:`count_nonfinite` counts them in advance.
        out: ``(values, indices)`` of an earlier call, to write to. For large k this saves most of the time,
            as fresh memory costs more than the selection.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        ``(values, indices)``, those of ``out`` if it is given: the selected entries, ``[min(k, n)]`` in the
        dtype of ``delta``, and their flat indices, ``[min(k, n)]`` int32, strictly ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or ``k`` is negative.
        NonFiniteError: A sum is NaN or infinite, under ``"error"``. ``count`` of the error has their number.
        MemoryError: No data is lost. A residual updated in place may hold the sums (as for k = 0), which
            contain the delta. With ``residual_out`` it is unchanged.

    Example:
        >>> import numpy as np
        >>> residual = np.zeros(4, np.float32)
        >>> topk_residual(np.float32([1, -5, 2, 0]), residual, 2)
        (array([-5.,  2.], dtype=float32), array([1, 2], dtype=int32))
        >>> residual
        array([1., 0., 0., 0.], dtype=float32)
    """
    return _kernels.topk_residual(delta, residual, whole("k", k), _drops(on_nonfinite), out, residual_out)


def grouped_topk_residual(
    deltas: Sequence[Array],
    residuals: Sequence[Array | None],
    k: Array | int | Sequence[int],
    *,
    on_nonfinite: OnNonFinite = "error",
    out: tuple[Array, Array] | None = None,
    residuals_out: Sequence[Array] | None = None,
) -> tuple[Values, NDArray[np.int32], NDArray[np.int64]]:
    """Selects as :func:`topk_residual` does, from a list of tensors, which are not concatenated.

    The list is one update: under ``"error"``, a sum that is not finite leaves all residuals unchanged.

    Args:
        deltas: One array or more. Any shapes, float32 or float64.
        residuals: An array for each delta, with its size and dtype. Updated in place unless ``residuals_out``
            is given. Then any of them may be None, for zeros.
        k: One number for each tensor, or one number for all tensors together. Of equal magnitudes, the latter
            selects those in the earlier tensor, then those with the lower index.
        on_nonfinite: See :func:`topk_residual`.
        out: See :func:`topk_residual`.
        residuals_out: An array for each new residual, with the size and dtype of its delta.

    Returns:
        ``(values, indices, row_splits)``: tensor t has the entries ``row_splits[t]`` up to ``row_splits[t +
        1]``, in the dtype of the deltas, with their flat int32 indices in that tensor, strictly ascending.
        ``row_splits`` is ``[tensors + 1]`` int64.

    Raises:
        ArgumentError: An array cannot be used, there is not one residual or one k for each tensor, or the
            tensors of a single k have 2**31 elements or more together.
        NonFiniteError: A sum is NaN or infinite, under ``"error"``. The message names the first tensor.
    """
    shared = type(k) is int or np.ndim(k) == 0
    ks = [whole("k", k)] if shared else [whole("k", each) for each in cast("Sequence[int]", k)]
    return _kernels.grouped_topk_residual(
        list(deltas),
        list(residuals),
        ks,
        shared,
        _drops(on_nonfinite),
        out,
        None if residuals_out is None else list(residuals_out),
    )


def _drops(on_nonfinite: OnNonFinite) -> bool:
    if on_nonfinite not in ("error", "drop"):
        raise ArgumentError(f"on_nonfinite is {on_nonfinite!r}; it must be 'error' or 'drop'")
    return on_nonfinite == "drop"


def chunked_topk_residual(
    delta: Array,
    residual: Array | None,
    k: Array | int,
    *,
    chunk: int,
    decay: Scalar = 1.0,
    residual_out: Array | None = None,
) -> tuple[Values, NDArray[np.int32]]:
    """Selects the ``k`` largest entries of every chunk of ``a = delta + decay * residual``.

    A chunk is ``chunk`` consecutive elements of the flattened ``a``. Order, ties and values are those of
    :func:`topk_residual`, within each chunk. All entries of a chunk with at most ``k`` elements are selected.
    The last chunk may be one. ``residual`` becomes ``a`` with the selected entries set to +0: scattering the
    values into it restores ``a`` bit for bit (Sarfi et al., "Communication Efficient LLM Pre-training with
    SparseLoCo", arXiv 2508.15706).

    Args:
        delta: The update. n elements in any shape, float32 or float64. Not changed.
        residual: The residual of earlier rounds; n elements, the dtype of ``delta``. Updated in place unless
            ``residual_out`` is given. None means zeros, and needs ``residual_out``.
        k: Number of entries to select from each chunk, 0 or more.
        chunk: Number of elements of a chunk, 1 or more. Fast if a chunk fits into the first-level cache.
        decay: The factor of the residual, 0 to 1, rounded to the dtype.
        residual_out: An array for the new residual; n elements, the dtype of ``delta``.

    Returns:
        ``(values, indices)``: the entries, in the dtype of ``delta``, and their flat indices, int32, strictly
        ascending.

    Raises:
        ArgumentError: An array cannot be used, two differ in size or share memory, or a number is out of
            range.
        NonFiniteError: A sum is NaN or infinite. ``count`` of the error has their number. ``residual`` is
            unchanged.
    """
    share = np.full(1, real("decay", decay), np.asarray(delta).dtype)
    return _kernels.chunked_topk_residual(
        delta, residual, whole("k", k), whole("chunk", chunk), share, residual_out
    )
