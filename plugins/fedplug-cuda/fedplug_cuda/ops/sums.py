"""Decoded payloads and sums on a CUDA device, for `fedplug.decode`, `fedplug.Sum` and `fedplug.ModelSum`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import PackedValues
from fedplug_cuda.arrays import stream_handle
from fedplug_cuda.entries import ADD, DIVIDE_BY, LARGEST, Entries, queue
from fedplug_cuda.entries import prepared as prepare
from fedplug_cuda.library import DeviceError, call, last_error
from fedplug_cuda.memory import copy_of, empty, empty_like
from fedplug_cuda.ops.arrays import widened
from fedplug_cuda.results import Results
from fedplug_cuda.scatter import scatter_decode_add
from fedplug_cuda.values import decode

__all__ = ["copied", "divide", "largest_of_each", "prepared", "refusal", "write", "zeros"]


def zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic], like: DeviceArray) -> DeviceArray:
    """Makes an array of zeros on the device of ``like``, in memory of the framework that owns it."""
    stream = stream_handle(None, like)
    made = empty(shape, dtype, like, stream)
    if made.nbytes:
        call("zero", made.device, made.pointer, made.nbytes, stream)
    return made


def largest_of_each(arrays: Sequence[DeviceArray]) -> list[float]:
    """Returns the largest magnitude of the finite elements of each array; 0 if there is none.

    Waits once for all arrays, which are on one device.
    """
    wide = [widened(x) for x in arrays]
    stream = stream_handle(None, wide[0])
    results = Results([x.dtype.itemsize for x in wide], wide[0], stream)
    call("zero", wide[0].device, results.at[0], results.size, stream)
    each = zip(wide, results.at, strict=True)
    queue(LARGEST, [Entries(x, None, at, x.size) for x, at in each], stream)
    found = zip(results.fetch(), wide, strict=True)
    return [float(magnitude.view(x.dtype)[0]) for magnitude, x in found]


def copied(x: DeviceArray) -> DeviceArray:
    """Returns a copy on the same device."""
    return copy_of(x, stream_handle(None, x))


def write(
    out: DeviceArray, values: NDArray[np.generic] | PackedValues, indices: NDArray[np.int32] | None
) -> None:
    """Writes a payload over an array: all elements, which may be a code, or entries among zeros.

    Raises:
        PayloadError: The indices do not ascend strictly in the array, whose contents are then undefined.
        DeviceError: The device or its memory refused the work.
    """
    if isinstance(values, PackedValues):
        decode([values], [out], [1])
        return
    stream = stream_handle(None, out)
    if indices is not None:
        if out.nbytes:
            call("zero", out.device, out.pointer, out.nbytes, stream)
        scatter_decode_add(out, values, indices)
        return
    host = np.ascontiguousarray(values)
    if host.nbytes:
        call("send", out.device, out.pointer, host.ctypes.data, host.nbytes, stream)


def prepared(additions: Sequence[Any]) -> tuple[list[partial[int]], Any]:
    """Prepares the kernel that makes additions.

    Args:
        additions: One or more `fedplug.codecs.accumulator.AddOnDevice`.

    Returns:
        C functions to call, which return 0 or a status, and the objects that they need until then.

    Raises:
        DeviceError: The arrays are on several devices, or their memory is too small.
    """
    stream = stream_handle(None, additions[0].total)
    packed = [each for each in additions if isinstance(each.values, PackedValues)]
    unpacked = [empty_like(each.total, stream) for each in packed]
    if packed:
        factors = [1 if each.factor is None else each.factor for each in packed]
        decode([each.values for each in packed], unpacked, factors)
    rest, entries = iter(unpacked), []
    for total, values, indices, _ in additions:
        if isinstance(values, PackedValues):
            values = next(rest)
        on_device = isinstance(values, DeviceArray)
        entries.append(Entries(total, indices, values.pointer if on_device else values, values.size))
    launch, sent = prepare(ADD, entries, stream)
    return [launch], (sent, unpacked)


def refusal() -> DeviceError:
    """Returns the error of a function from `prepared` that returned a status."""
    return DeviceError(last_error())


def divide(arrays: Sequence[DeviceArray], divisor: float) -> None:
    """Divides arrays by a number, which is rounded to the dtype of each, in place."""
    entries = [Entries(x, None, np.full(1, divisor, x.dtype), x.size) for x in arrays]
    queue(DIVIDE_BY, entries, stream_handle(None, arrays[0]))
