"""`fedplug.ops.topk` on a CUDA device. Entries come to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedplug.kernels.arguments import real, whole
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import GroupedTopK, TopK
from fedplug_cuda.memory import to_device_of_each
from fedplug_cuda.sums import chunked_topk
from fedplug_cuda.topk import select

__all__ = ["chunked_topk_residual_of_each", "grouped_topk_residual", "topk_residual", "topk_residual_of_each"]


def topk_residual(delta: DeviceArray, residual: object, k: object, *, lowering: None = None) -> TopK:
    """See `fedplug.ops.topk_residual`."""
    del lowering
    found = _selected([delta], [residual], whole("k", k))
    return TopK(found.values, found.indices, found.residuals[0])


def topk_residual_of_each(
    deltas: Sequence[DeviceArray], residuals: Sequence[object], ks: Sequence[object]
) -> list[TopK]:
    """See `fedplug.ops.topk_residual_of_each`. One call for the list."""
    if len({delta.dtype for delta in deltas}) > 1:
        return [topk_residual(*each) for each in zip(deltas, residuals, ks, strict=True)]
    found = _selected(deltas, residuals, [whole("k", k) for k in ks])
    begins, ends = found.row_splits[:-1].tolist(), found.row_splits[1:].tolist()
    return [
        TopK(found.values[begin:end], found.indices[begin:end], residual)
        for begin, end, residual in zip(begins, ends, found.residuals, strict=True)
    ]


def grouped_topk_residual(
    deltas: Sequence[DeviceArray], residuals: Sequence[object], k: object, *, lowering: None = None
) -> GroupedTopK:
    """See `fedplug.ops.grouped_topk_residual`."""
    del lowering
    return _selected(deltas, residuals, whole("k", k))


def _selected(deltas: Sequence[DeviceArray], residuals: Sequence[Any], k: Any) -> GroupedTopK:
    """Never overwrites its residuals: a later step may refuse the update, which must leave them unchanged."""
    stream, before = to_device_of_each(deltas, residuals)
    return select(deltas, before, [None] * len(deltas), k, stream)


def chunked_topk_residual_of_each(
    deltas: Sequence[DeviceArray],
    residuals: Sequence[object],
    ks: Sequence[object],
    *,
    chunk: int,
    decay: float,
) -> list[TopK]:
    """See `fedplug.ops.topk.chunked_topk_residual_of_each`."""
    stream, before = to_device_of_each(deltas, residuals)
    whole_ks = [whole("k", k) for k in ks]
    return chunked_topk(deltas, before, whole_ks, whole("chunk", chunk), real("decay", decay), stream)
