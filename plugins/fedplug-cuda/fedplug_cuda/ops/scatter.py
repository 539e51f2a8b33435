"""`fedplug.ops.scatter` on a CUDA device. Entries come to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import NonFiniteError
from fedplug.kernels.arguments import whole_numbers
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.donation import spare_residuals
from fedplug.ops.types import TakenFromSum
from fedplug_cuda.arrays import stream_handle
from fedplug_cuda.entries import ADD, Entries, queue
from fedplug_cuda.memory import copy_of, on_device, to_device_of_each
from fedplug_cuda.scatter import scatter_decode_add as add
from fedplug_cuda.sums import gathered, taken

__all__ = ["add_selected", "gather_finite_of_each", "scatter_decode_add", "take_from_sum_of_each"]


def scatter_decode_add(
    accumulator: DeviceArray,
    values: Any,
    indices: Any,
    row_splits: Any = None,
    weights: Any = None,
    *,
    lowering: None = None,
) -> DeviceArray:
    """See `fedplug.ops.scatter_decode_add`. Adds in place if the accumulator was donated."""
    del lowering
    stream = stream_handle(None, accumulator)
    total = accumulator if spare_residuals.get([]) is None else copy_of(accumulator, stream)
    factors = None if weights is None else np.asarray(weights, total.dtype)
    add(
        total,
        np.asarray(values),
        whole_numbers("indices", indices, np.int32),
        row_splits=row_splits,
        weights=factors,
    )
    return total


def add_selected(
    residuals: Sequence[DeviceArray], values: Sequence[Any], indices: Sequence[Any]
) -> list[DeviceArray]:
    """See `fedplug.ops.add_selected`. The indices that a selection left on the device are used there."""
    selected = [on_device(each) for each in indices]
    if None in selected:
        return [scatter_decode_add(*each) for each in zip(residuals, values, indices, strict=True)]
    each = zip(residuals, selected, values, strict=True)
    entries = [Entries(residual, at, lost, len(lost)) for residual, at, lost in each]
    queue(ADD, entries, stream_handle(None, residuals[0]))
    return list(residuals)


def gather_finite_of_each(xs: Sequence[DeviceArray], indices: Sequence[object]) -> list[NDArray[np.generic]]:
    """See `fedplug.ops.scatter.gather_finite_of_each`."""
    try:
        return gathered(xs, _places(indices), stream_handle(None, xs[0]))
    except NonFiniteError as error:
        raise NonFiniteError("the update holds a NaN or an infinity", count=error.count) from None


def take_from_sum_of_each(
    deltas: Sequence[DeviceArray], residuals: Sequence[object], indices: Sequence[object]
) -> list[TakenFromSum]:
    """See `fedplug.ops.scatter.take_from_sum_of_each`."""
    stream, before = to_device_of_each(deltas, residuals)
    return taken(deltas, before, _places(indices), stream)


def _places(indices: Sequence[object]) -> list[NDArray[np.int32]]:
    return [whole_numbers("indices", each, np.int32) for each in indices]
