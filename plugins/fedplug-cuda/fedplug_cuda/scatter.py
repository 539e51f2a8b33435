"""Addition of sparse payloads to a dense array on a CUDA device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, PayloadError
from fedplug.kernels.arguments import whole_numbers
from fedplug_cuda.arrays import DTYPE_CODES, as_device_array, stream_handle
from fedplug_cuda.library import ScatterReport, call, library
from fedplug_cuda.memory import empty_bytes, fetch, layout, send

__all__ = ["scatter_decode_add"]

_REPORT_BYTES = 56


def scatter_decode_add(
    accumulator: object,
    values: NDArray[np.generic],
    indices: NDArray[np.int32],
    *,
    row_splits: NDArray[np.int64] | None = None,
    weights: NDArray[np.generic] | None = None,
    stream: object = None,
) -> None:
    """Adds sparse payloads, which are on the host, to ``accumulator`` on its device: all of them or none.

    The result has the bits of `fedplug.kernels.scatter_decode_add`. Waits once, for the device's verdict.

    Args:
        accumulator: An array of n elements on a CUDA device. float32, float64, float16 or bfloat16.
        values: The entries of all payloads, one payload after the other. ``[entries]``, its dtype.
        indices: Their places, strictly ascending in each payload, in ``[0, n)``. int32 ``[entries]``,
            untrusted.
        row_splits: Where each payload begins, and the number of entries at the end. None for one payload.
        weights: A factor for each payload. None for ones.
        stream: The stream to work on. None is the framework's current one.

    Raises:
        ArgumentError: An array does not fit.
        DeviceError: The device or its memory refused the work.
        PayloadError: Indices or row splits are not those of payloads for n elements. Nothing was added.
    """
    into = as_device_array(accumulator)
    handle = stream_handle(stream, into)
    splits = (
        np.array([0, len(indices)], np.int64)
        if row_splits is None
        else whole_numbers("row_splits", row_splits, np.int64)
    )
    values = np.asarray(values)
    indices = np.asarray(indices)
    if (
        values.dtype != into.dtype
        or indices.dtype != np.int32
        or values.shape != indices.shape
        or values.ndim != 1
    ):
        raise ArgumentError(
            f"values are {values.dtype}{list(values.shape)} and indices "
            f"{indices.dtype}{list(indices.shape)}; for this accumulator they must be {into.dtype}[entries] "
            "and int32[entries]"
        )
    if splits.ndim != 1 or splits.size < 1:
        raise ArgumentError(f"row_splits are of shape {list(splits.shape)}; they must be int64[payloads + 1]")
    if weights is not None:
        weights = np.asarray(weights)
        if weights.dtype != into.dtype or weights.shape != (splits.size - 1,):
            raise ArgumentError(
                f"weights are {weights.dtype}{list(weights.shape)}; they must be "
                f"{into.dtype}[{splits.size - 1}]"
            )
    sent, at = send([splits, indices, values, *([] if weights is None else [weights])], into, handle)
    workspace_bytes = library().fedplug_cuda_scatter_workspace_bytes()
    (workspace_offset, report_offset), size = layout([workspace_bytes, _REPORT_BYTES])
    scratch, scratch_at = empty_bytes(size, into, handle)
    at_splits, at_indices, at_values, *at_weights = at
    call(
        "scatter_add",
        into.device,
        DTYPE_CODES[into.dtype],
        into.pointer,
        into.size,
        at_values,
        at_indices,
        len(indices),
        at_splits,
        splits.size - 1,
        at_weights[0] if at_weights else None,
        scratch_at + workspace_offset,
        workspace_bytes,
        scratch_at + report_offset,
        handle,
    )
    report = ScatterReport.from_buffer_copy(
        fetch(scratch_at + report_offset, _REPORT_BYTES, into.device, handle)
    )
    del sent, scratch  # not before the stream is through
    try:
        call("scatter_judge", report)
    except ArgumentError as error:
        raise PayloadError(str(error)) from None
