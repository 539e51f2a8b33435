"""Steps of an addition, which run together or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import PackedValues

__all__ = ["AddOnDevice", "Step", "run"]


class AddOnDevice(NamedTuple):
    """The addition of entries to an array on a device.

    Attributes:
        total: The array, float32 or float64.
        values: The numbers to add, of the dtype of ``total``: a NumPy array, or on the same device. Or their
            code, of ``total``'s dtype or a narrower one.
        indices: The strictly ascending indices of the values, which were checked. None: one for each element.
        factor: A factor of the values in the code. None: 1.
    """

    total: DeviceArray
    values: NDArray[Any] | DeviceArray | PackedValues
    indices: NDArray[np.int32] | None
    factor: NDArray[Any] | None = None


Step: TypeAlias = "partial[Any] | AddOnDevice"


def run(steps: Sequence[Step]) -> None:
    """Runs all steps or none: no signal handler can raise an exception between two of them.

    Python runs signal handlers between the bytecodes of Python functions only. Each step is a C function, and
    here C calls them. All additions on a device are one kernel, which is queued first.

    Raises:
        Exception: The device or its memory refused the additions. The error of its backend.
    """
    additions = [step for step in steps if isinstance(step, AddOnDevice)]
    others = [step for step in steps if not isinstance(step, AddOnDevice)]
    backend = additions[0].total.backend if additions else None
    launches, sent = backend.prepared(additions) if backend else ([], None)
    statuses = map(partial.__call__, launches)
    with np.errstate(all="ignore"):  # a warning runs Python code
        try:
            # A status above 0 raises IndexError, in C.
            deque(chain(map((None,).__getitem__, statuses), map(partial.__call__, others)), maxlen=0)
        except IndexError:
            assert backend is not None  # only its launches have a status
            raise backend.refusal() from None
    del sent  # not before the kernel is queued
