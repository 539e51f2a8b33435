"""Top-k selection with error feedback on a CUDA device."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.errors import ArgumentError
from fedplug.kernels.arguments import whole
from fedplug.ops.types import GroupedTopK
from fedplug_cuda.arrays import DTYPE_CODES, DeviceArray, as_device_array, require_same_device, stream_handle
from fedplug_cuda.library import DeviceError, TopKReport, Update, call
from fedplug_cuda.memory import empty_bytes, empty_like, to_device
from fedplug_cuda.results import Results, require_finite

__all__ = ["grouped_topk_residual", "require_wide", "select", "self_check"]


def grouped_topk_residual(
    deltas: Sequence[object],
    residuals: Sequence[object] | None,
    k: int,
    *,
    residuals_out: Sequence[object] | None = None,
    stream: object = None,
) -> GroupedTopK:
    """Selects the ``k`` largest entries of ``delta + residual`` of a list of tensors on one CUDA device.

    The result has the bits of `fedplug.kernels.grouped_topk_residual`. Waits once, for the selected entries.

    Args:
        deltas: Tensors of float32 or float64, all of one dtype and on one device; at least one, of fewer than
            2^31 elements together.
        residuals: The residuals of earlier rounds, of the sizes of the deltas. None for zeros.
        k: Number of entries to select from all tensors together; 0 or more.
        residuals_out: Arrays to write the next residuals to. The residuals themselves for an update in place.
            None allocates them in the framework of the deltas.
        stream: The stream to work on. None is the framework's current one.

    Returns:
        Entries on the host, in NumPy arrays, and residuals on the device, in arrays of the deltas' framework.

    Raises:
        ArgumentError: An array does not fit, or ``k`` is negative.
        DeviceError: The arrays are on several devices, or the device or its memory refused the work.
        NonFiniteError: A sum is NaN or infinite. Nothing is changed.

    Example:
        >>> found = grouped_topk_residual([torch_tensor], None, k=100)  # doctest: +SKIP
        >>> found.values.shape, found.residuals[0].device  # doctest: +SKIP
        ((100,), device(type='cuda', index=0))
    """
    if not deltas:
        raise ArgumentError("there are no deltas; pass at least one")
    handle = stream_handle(stream, as_device_array(deltas[0]))
    xs = [as_device_array(delta, handle) for delta in deltas]
    before = _matching("residuals", residuals or [None] * len(xs), xs, handle)
    after = _matching("residuals_out", residuals_out or [None] * len(xs), xs, handle)
    found = select(xs, before, after, whole("k", k), handle)
    return found._replace(residuals=[array.owner for array in found.residuals])


def self_check() -> str:
    """Selects 100 of 10,000 entries on device 0 and compares the bits with the CPU's.

    Returns:
        A short description of the result.

    Raises:
        DeviceError: The device refused the work, or its bits are not the CPU's.
    """
    update = np.random.default_rng(0).standard_normal(10_000, np.float32)
    values, indices = kernels.topk_residual(update, np.zeros_like(update), 100)
    found = grouped_topk_residual([to_device(update)], None, 100)
    if found.values.tobytes() != values.tobytes() or not np.array_equal(found.indices, indices):
        raise DeviceError("device 0 selects other entries than the CPU; update its driver, and report this")
    return "device 0 selects the entries that the CPU selects"


def select(
    xs: Sequence[DeviceArray],
    before: Sequence[DeviceArray | None],
    after: Sequence[DeviceArray | None],
    k: int | Sequence[int],
    stream: int,
) -> GroupedTopK:
    """Selects as `grouped_topk_residual` does, or ``k[i]`` entries of array i if ``k`` is a list.

    Residuals are device arrays. None is zeros, or new memory.
    """
    dtype = _common_dtype(xs)
    device = require_same_device([array for array in (*xs, *before, *after) if array is not None])
    written = [empty_like(x, stream) if new is None else new for x, new in zip(xs, after, strict=True)]
    for old, new in zip(before, written, strict=True):
        if old is None and new.nbytes:
            call("zero", device, new.pointer, new.nbytes, stream)
    count, sizes = len(xs), [x.size for x in xs]
    updates = (Update * count)(
        *(
            (x.pointer, (new if old is None else old).pointer, new.pointer, size)
            for x, old, new, size in zip(xs, before, written, sizes, strict=True)
        )
    )
    each = not isinstance(k, int)
    needed = ctypes.c_uint64()
    call("topk_workspace_bytes", DTYPE_CODES[dtype], updates, count, each, ctypes.byref(needed))
    workspace, workspace_at = empty_bytes(needed.value, xs[0], stream)
    if isinstance(k, int):
        chosen = max(0, min(k, sum(sizes)))
    else:
        of_each = [max(0, min(*limits)) for limits in zip(k, sizes, strict=True)]
        chosen = sum(of_each)
    parts = [ctypes.sizeof(TopKReport) * count, 8 * (count + 1), 4 * chosen, dtype.itemsize * chosen]
    results = Results(parts, xs[0], stream)
    reports_at, splits_at, indices_at, values_at = results.at
    scratch = workspace_at, needed.value, values_at, indices_at
    if isinstance(k, int):
        arguments: tuple[Any, ...] = (count, k, *scratch, splits_at)
        call("topk", device, DTYPE_CODES[dtype], updates, *arguments, reports_at, stream)
    else:
        arguments = ((ctypes.c_int64 * count)(*k), count, *scratch)
        call("topk_each", device, DTYPE_CODES[dtype], updates, *arguments, reports_at, stream)
    found = results.fetch()
    del workspace  # not before the stream is through
    require_finite((TopKReport * count).from_buffer_copy(found[0]), sizes)
    splits = found[1].view(np.int64) if isinstance(k, int) else np.cumsum([0, *of_each])
    return GroupedTopK(found[3].view(dtype), found[2].view(np.int32), splits, written)


def require_wide(xs: Sequence[DeviceArray]) -> None:
    """Raises ArgumentError unless all arrays are of float32 or float64."""
    for x in xs:
        if x.dtype.itemsize == 2:
            raise ArgumentError(
                f"the deltas are {x.dtype.name}; convert them to float32, the residuals' dtype"
            )


def _common_dtype(xs: Sequence[DeviceArray]) -> np.dtype[np.generic]:
    dtypes = {x.dtype for x in xs}
    if len(dtypes) > 1:
        names = " and ".join(sorted(dtype.name for dtype in dtypes))
        raise ArgumentError(f"the deltas are of {names}; select from tensors of one dtype at a time")
    require_wide(xs)
    return dtypes.pop()


def _matching(
    name: str, arrays: Sequence[object], xs: Sequence[DeviceArray], stream: int
) -> list[DeviceArray | None]:
    """The arrays, each of the size and dtype of its delta. None stays None."""
    if len(arrays) != len(xs):
        raise ArgumentError(f"there are {len(xs)} deltas and {len(arrays)} {name}; pass one for each")
    found = [None if array is None else as_device_array(array, stream) for array in arrays]
    for number, (array, x) in enumerate(zip(found, xs, strict=True)):
        if array is not None and (array.size != x.size or array.dtype != x.dtype):
            raise ArgumentError(
                f"{name}[{number}] is {array.dtype}{list(array.shape)} and its delta "
                f"{x.dtype}{list(x.shape)}; they must be of one dtype and size"
            )
    return found
