"""Sparse entries of every array of a list, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug_cuda.arrays import DTYPE_CODES, DeviceArray
from fedplug_cuda.library import call
from fedplug_cuda.memory import send

__all__ = ["add_entries", "read_entries", "table_of", "take_entries"]

_ADD, _READ, _TAKE = range(3)


def add_entries(
    totals: Sequence[DeviceArray], values: Sequence[NDArray[Any]], selected: Sequence[int], stream: int
) -> None:
    """Adds entries to every array of a list: one copy to the device and one kernel.

    Args:
        totals: Arrays of one dtype, on one device.
        values: The numbers to add to each array, of its dtype.
        selected: The address in device memory of each array's int32 indices; trusted.
        stream: Handle of the stream to work on.

    Raises:
        DeviceError: The device or its memory refused the work.
    """
    table = table_of(totals, selected, [len(each) for each in values])
    sent, (table_at, values_at) = send([table, np.concatenate(values)], totals[0], stream)
    _queue(_ADD, totals, table_at, values_at, sum(map(len, values)), stream)
    del sent  # not before the kernel is queued


def take_entries(
    arrays: Sequence[DeviceArray],
    selected: Sequence[int],
    counts: Sequence[int],
    values_at: int | None,
    stream: int,
) -> None:
    """Sets entries of every array to zero; their old values go to the address, one array after the other.

    Args:
        arrays: As for `add_entries`.
        selected: As for `add_entries`.
        counts: Number of entries of each array.
        values_at: Address of device memory for the old values, or None.
        stream: As for `add_entries`.

    Raises:
        DeviceError: The device or its memory refused the work.
    """
    _without_values(_TAKE, arrays, selected, counts, values_at, stream)


def read_entries(
    arrays: Sequence[DeviceArray], selected: Sequence[int], counts: Sequence[int], values_at: int, stream: int
) -> None:
    """Copies entries as `take_entries` does, and leaves them where they are."""
    _without_values(_READ, arrays, selected, counts, values_at, stream)


def table_of(
    arrays: Sequence[DeviceArray], selected: Sequence[int], counts: Sequence[int]
) -> NDArray[np.int64]:
    """FedplugCudaEntries of each array."""
    table = np.zeros((len(arrays), 3), np.int64)
    table[:, 0] = [array.pointer for array in arrays]
    table[:, 1] = selected
    table[1:, 2] = np.cumsum(counts[:-1])
    return table


def _without_values(
    work: int,
    arrays: Sequence[DeviceArray],
    selected: Sequence[int],
    counts: Sequence[int],
    values_at: int | None,
    stream: int,
) -> None:
    sent, (table_at,) = send([table_of(arrays, selected, counts)], arrays[0], stream)
    _queue(work, arrays, table_at, values_at, sum(counts), stream)
    del sent  # not before the kernel is queued


def _queue(
    work: int, arrays: Sequence[DeviceArray], table_at: int, values_at: int | None, entries: int, stream: int
) -> None:
    first = arrays[0]
    dtype = DTYPE_CODES[first.dtype]
    call("entries", first.device, dtype, work, table_at, len(arrays), values_at, entries, stream)
