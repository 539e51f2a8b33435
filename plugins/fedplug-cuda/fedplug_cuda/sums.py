"""Sparsifiers that begin with ``delta + factor * residual``: chunks, and given entries.

Each works on a list of tensors and waits once for all of them. None overwrites its arguments: a later step
may refuse the update, which must leave the residuals unchanged.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError
from fedplug.ops.types import TakenFromSum, TopK
from fedplug_cuda.arrays import DTYPE_CODES, DeviceArray, require_same_device
from fedplug_cuda.entries import READ, TAKE, Entries, queue
from fedplug_cuda.library import ScaledSum, call
from fedplug_cuda.memory import empty_like
from fedplug_cuda.results import Results, require_counted_finite
from fedplug_cuda.topk import require_wide

__all__ = ["chunked_topk", "gathered", "non_finite_counts", "scaled", "taken"]

_COUNT = 8
"""Number of bytes of a FedplugCudaNonFiniteCount."""

_Residuals = Sequence[DeviceArray | None]


def scaled(x: DeviceArray, factor: object, stream: int) -> DeviceArray:
    """Computes ``factor * x``. Each product is rounded once."""
    product = empty_like(x, stream)
    _queue_sum(None, x, product, factor, stream)
    return product


def chunked_topk(
    xs: Sequence[DeviceArray], residuals: _Residuals, ks: Sequence[int], chunk: int, decay: Any, stream: int
) -> list[TopK]:
    """Selects as `fedplug.ops.chunked_topk_residual` does from each tensor. Zeros for a residual of None."""
    _require_fitting(xs, residuals)
    if chunk < 1:
        raise ArgumentError(f"chunk = {chunk}; it must be at least 1")
    if not 0 <= decay <= 1:
        raise ArgumentError(f"decay = {decay} is not in [0, 1]")
    counts = [x.size // chunk * min(k, chunk) + min(k, x.size % chunk) for x, k in zip(xs, ks, strict=True)]
    results = Results(_sizes_of(xs, counts), xs[0], stream)
    rests = [empty_like(x, stream) for x in xs]
    for i, (x, residual, rest, k) in enumerate(zip(xs, residuals, rests, ks, strict=True)):
        call(
            "chunked_topk",
            x.device,
            DTYPE_CODES[x.dtype],
            _scaled_sum(x, residual, rest, decay),
            k,
            chunk,
            results.at[1 + 2 * i],
            results.at[2 + 2 * i],
            results.at[0] + _COUNT * i,
            stream,
        )
    found = results.fetch()
    require_counted_finite(found[0], [x.size for x in xs])
    return [
        TopK(found[1 + 2 * i].view(x.dtype), found[2 + 2 * i].view(np.int32), rests[i])
        for i, x in enumerate(xs)
    ]


def taken(
    xs: Sequence[DeviceArray], residuals: _Residuals, indices: Sequence[NDArray[np.int32]], stream: int
) -> list[TakenFromSum]:
    """Takes entries of sums as `fedplug.ops.take_from_sum` does. Zeros for a residual of None. Waits once."""
    _require_fitting(xs, residuals)
    for x, places in zip(xs, indices, strict=True):
        if np.any(np.diff(places) <= 0):
            raise ArgumentError("the indices do not ascend strictly")
        _require_inside(places, x.size)
    rests = [empty_like(x, stream) for x in xs]
    values = _entries_of_finite(xs, residuals, rests, TAKE, indices, stream)
    return [TakenFromSum(each, rest) for each, rest in zip(values, rests, strict=True)]


def gathered(
    xs: Sequence[DeviceArray], indices: Sequence[NDArray[np.int32]], stream: int
) -> list[NDArray[np.generic]]:
    """Reads entries of arrays, which must be finite. Waits once."""
    _require_fitting(xs, [])
    for x, places in zip(xs, indices, strict=True):
        _require_inside(places, x.size)
    return _entries_of_finite(xs, [None] * len(xs), [None] * len(xs), READ, indices, stream)


def _entries_of_finite(
    xs: Sequence[DeviceArray],
    residuals: _Residuals,
    totals: Sequence[DeviceArray | None],
    work: int,
    indices: Sequence[NDArray[np.int32]],
    stream: int,
) -> list[NDArray[np.generic]]:
    """Writes sums over ``totals``, or none for None, and works on their entries. Refuses sums not finite."""
    sizes = [x.dtype.itemsize * len(places) for x, places in zip(xs, indices, strict=True)]
    results = Results([_COUNT * len(xs), *sizes], xs[0], stream)
    entries = []
    for i, (x, residual, total) in enumerate(zip(xs, residuals, totals, strict=True)):
        _queue_sum(x, residual, total, 1, stream, non_finite=results.at[0] + _COUNT * i)
        entries.append(Entries(total or x, indices[i], results.at[1 + i], len(indices[i])))
    queue(work, entries, stream)
    non_finite, *values = results.fetch()
    require_counted_finite(non_finite, [x.size for x in xs])
    return [each.view(x.dtype) for each, x in zip(values, xs, strict=True)]


def non_finite_counts(xs: Sequence[DeviceArray], stream: int) -> list[int]:
    """Counts the elements of each array that are NaN or infinite. Waits once."""
    require_wide(xs)
    results = Results([_COUNT * len(xs)], xs[0], stream)
    for i, x in enumerate(xs):
        _queue_sum(x, None, None, 1, stream, non_finite=results.at[0] + _COUNT * i)
    return results.fetch()[0].view(np.uint32)[::2].tolist()


def _queue_sum(
    delta: DeviceArray | None,
    residual: DeviceArray | None,
    total: DeviceArray | None,
    factor: object,
    stream: int,
    *,
    non_finite: int | None = None,
) -> None:
    """Queues ``total = delta + factor * residual``; csrc/cuda/scaled_sum.h has the meaning of None."""
    like = delta or residual
    assert like is not None
    struct = _scaled_sum(delta, residual, total, factor)
    dtype = DTYPE_CODES[like.dtype]
    call("scaled_sum", like.device, dtype, struct, non_finite, stream)


def _scaled_sum(
    delta: DeviceArray | None, residual: DeviceArray | None, total: DeviceArray | None, factor: object
) -> Any:
    like = delta or residual
    assert like is not None
    addresses = [None if array is None else array.pointer for array in (delta, residual, total)]
    # The factor is rounded to the dtype first, as on the CPU.
    return ctypes.byref(ScaledSum(*addresses, like.size, float(like.dtype.type(factor))))


def _sizes_of(xs: Sequence[DeviceArray], counts: Sequence[int]) -> list[int]:
    """The sizes of results: the counts of non-finite sums, and values and indices of each tensor."""
    sizes = [_COUNT * len(xs)]
    for x, count in zip(xs, counts, strict=True):
        sizes += [x.dtype.itemsize * count, 4 * count]
    return sizes


def _require_fitting(xs: Sequence[DeviceArray], residuals: _Residuals) -> None:
    require_same_device([array for array in (*xs, *residuals) if array is not None])
    require_wide(xs)
    for x, residual in zip(itertools.cycle(xs), residuals, strict=False):
        if residual is not None and (residual.size, residual.dtype) != (x.size, x.dtype):
            raise ArgumentError(
                f"a residual is {residual.dtype}{list(residual.shape)} and its delta "
                f"{x.dtype}{list(x.shape)}; they must be of one dtype and size"
            )


def _require_inside(indices: NDArray[np.int32], size: int) -> None:
    if len(indices) and not 0 <= indices.min() <= indices.max() < size:
        raise ArgumentError(f"an index is not in [0, {size})")
