"""The results of several kernels: one allocation on the device, and one copy to the host."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import NonFiniteError
from fedplug.ops.device_array import DeviceArray
from fedplug_cuda.library import TopKReport, Update, call
from fedplug_cuda.memory import empty_bytes, fetch, layout

__all__ = ["Results", "require_counted_finite", "require_finite"]


class Results:
    """Memory of several parts on a device, which the host fetches together.

    Attributes:
        at: The address of each part.
        size: The number of bytes of all parts, with the gaps between them.
    """

    def __init__(self, sizes: Sequence[int], like: DeviceArray, stream: int) -> None:
        """Allocates parts of these numbers of bytes.

        Raises:
            DeviceError: The device has too little free memory.
        """
        self._sizes = sizes
        self._offsets, self.size = layout(list(sizes))
        self._memory, begin = empty_bytes(self.size, like, stream)
        self._begin, self._device, self._stream = begin, like.device, stream
        self.at = [begin + offset for offset in self._offsets]

    def fetch(self) -> list[NDArray[np.uint8]]:
        """Returns the bytes of each part, after all earlier work of the stream. See `fedplug_cuda.memory`."""
        host = fetch(self._begin, self.size, self._device, self._stream, keep=self._memory)
        return [host[offset : offset + size] for offset, size in zip(self._offsets, self._sizes, strict=True)]


def require_finite(reports: Any, sizes: Sequence[int]) -> None:
    """Raises NonFiniteError if an array of `TopKReport`, of tensors of these sizes, counts any sum."""
    count = len(sizes)
    updates = (Update * count)(*((None, None, None, size) for size in sizes))
    try:
        call("topk_judge", reports, updates, ctypes.c_int64(count))
    except NonFiniteError as error:
        raise NonFiniteError(str(error), count=sum(report.non_finite for report in reports)) from None


def require_counted_finite(counts: NDArray[np.uint8], sizes: Sequence[int]) -> None:
    """Raises NonFiniteError if one FedplugCudaNonFiniteCount for each tensor counts any."""
    pairs = counts.view(np.uint32).reshape(-1, 2).tolist()
    if not any(count for count, _ in pairs):
        return
    reports = (TopKReport * len(sizes))(
        *((count, size - end if count else -1) for (count, end), size in zip(pairs, sizes, strict=True))
    )
    require_finite(reports, sizes)
