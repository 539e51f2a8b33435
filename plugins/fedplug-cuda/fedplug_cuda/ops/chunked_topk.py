"""`fedplug.ops.chunked_topk` on a CUDA device: the entries come to the host, the residuals stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedplug.kernels.arguments import real, whole
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import ChunkedTopK
from fedplug_cuda.memory import to_device_of_each
from fedplug_cuda.sums import chunked_topk

__all__ = ["chunked_topk_residual", "chunked_topk_residual_of_each"]


def chunked_topk_residual(
    delta: DeviceArray, residual: Any, k: Any, *, chunk: int, decay: Any, lowering: None = None
) -> ChunkedTopK:
    """See `fedplug.ops.chunked_topk_residual`."""
    del lowering
    return chunked_topk_residual_of_each([delta], [residual], [k], chunk=chunk, decay=decay)[0]


def chunked_topk_residual_of_each(
    deltas: Sequence[DeviceArray], residuals: Sequence[Any], ks: Sequence[Any], *, chunk: int, decay: float
) -> list[ChunkedTopK]:
    """See `fedplug.ops.chunked_topk.chunked_topk_residual_of_each`."""
    stream, before = to_device_of_each(deltas, residuals)
    whole_ks = [whole("k", k) for k in ks]
    return chunked_topk(deltas, before, whole_ks, whole("chunk", chunk), real("decay", decay), stream)
