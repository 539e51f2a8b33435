"""Entries of every array of a list, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.arrays import require_same_device
from fedplug_cuda.library import call, library
from fedplug_cuda.memory import room_for, send

__all__ = ["ADD", "DIVIDE_BY", "LARGEST", "READ", "TAKE", "Entries", "prepared", "queue"]

ADD, READ, TAKE, DIVIDE_BY, LARGEST = range(5)
"""FedplugCudaEntriesWork."""


class Entries(NamedTuple):
    """Entries of one array.

    Attributes:
        array: The array, of float32 or float64.
        indices: Trusted int32 indices: on the host, or their address on the device. None for all elements.
        values: One value for each entry, of the array's dtype: on the host, or an address. None for none.
        count: Number of entries.
    """

    array: DeviceArray
    indices: NDArray[np.int32] | int | None
    values: NDArray[np.generic] | int | None
    count: int


def queue(work: int, entries: Sequence[Entries], stream: int) -> None:
    """Queues work on entries of arrays that are on one device: one copy to the device and one kernel.

    Raises:
        DeviceError: The device or its memory refused the work. No array has changed.
    """
    arguments, sent = _sent(work, entries, stream)
    call("entries", *arguments)
    del sent  # not before the kernel is queued


def prepared(work: int, entries: Sequence[Entries], stream: int) -> tuple[partial[int], Any]:
    """Prepares the work of `queue`: a C function that queues the kernel, and the memory that it needs.

    The function returns a status that is not 0 if the device refuses the kernel.
    """
    arguments, sent = _sent(work, entries, stream)
    return partial(library().fedplug_cuda_entries, *arguments), sent


def _sent(work: int, entries: Sequence[Entries], stream: int) -> tuple[tuple[Any, ...], Any]:
    """Copies all that is on the host to the device. Returns the arguments of the call, and the memory."""
    device = require_same_device([each.array for each in entries])
    table = np.zeros((len(entries), 5), np.int64)  # FedplugCudaEntries of each array
    table[:, 0] = [each.array.pointer for each in entries]
    table[1:, 3] = np.cumsum([each.count for each in entries[:-1]])
    table[:, 4] = [each.array.dtype == np.float64 for each in entries]
    parts, places = [table], []
    for row, each in enumerate(entries):
        for column, data in ((1, each.indices), (2, each.values)):
            if isinstance(data, np.ndarray):
                parts.append(data)
                places.append((row, column))
            else:
                table[row, column] = data or 0
    memory, at = room = room_for(parts, entries[0].array, stream)
    for place, address in zip(places, at[1:], strict=True):
        table[place] = address
    send(parts, entries[0].array, stream, room)
    count = sum(each.count for each in entries)
    return (device, work, at[0], len(entries), count, stream), memory
