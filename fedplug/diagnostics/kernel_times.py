"""Times the kernels on this machine, relative to a copy, for ``fedplug bench --kernels``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.diagnostics.timing import timed
from fedplug.diagnostics.updates import random_update
from fedplug.errors import ComputationError

__all__ = ["KernelTime", "kernel_times"]

Array = NDArray[Any]

_CLIENTS = 8
_KEPT = 100
"""The number of elements per entry that is sent."""
_BITS = 4
_BLOCK = 512
"""The block size of the levels that the symbol coder compresses."""


@dataclass(frozen=True, kw_only=True)
class KernelTime:
    """The time of a kernel.

    Attributes:
        kernel: The name of the call.
        seconds: The median of many runs.
        copies: ``seconds`` divided by the time to copy an array of float32 with the same number of elements.
    """

    kernel: str
    seconds: float
    copies: float


def kernel_times(elements: int) -> Iterator[KernelTime]:
    """Times the kernels on NumPy arrays.

    Args:
        elements: Number of elements of the arrays. Each of 8 clients sends one in a hundred.

    Raises:
        ConfigError: There are fewer than 1,000 elements.
    """
    delta = random_update(elements).arrays["update"]
    scratch, count = np.zeros_like(delta), elements // _KEPT
    values, indices = kernels.topk_residual(delta, scratch, count)
    entries = (values.copy(), indices.copy())
    code = kernels.encode_indices(indices, elements)
    packed = kernels.encode_values(delta, "qsgd", bits=_BITS, block_size=_BLOCK)
    packed = packed[len(packed) - (elements * _BITS + 7) // 8 :]  # the levels without their scales
    symbols = kernels.encode_symbols(packed, elements, bits=_BITS)
    splits = np.arange(_CLIENTS + 1, dtype=np.int64) * count
    all_values, all_indices = np.tile(values, _CLIENTS), np.tile(indices, _CLIENTS)
    dense = np.zeros_like(delta)
    for _ in range(_CLIENTS):
        dense[indices] += values

    def copy() -> Array:
        np.copyto(scratch, delta)
        return scratch

    def scatter() -> Array:
        kernels.scatter_decode_add(scratch, all_values, all_indices, splits)
        return scratch

    # Each call with its expected result. The scratch array holds zeros.
    calls: dict[str, tuple[Callable[[], Array], Array]] = {
        "copy": (copy, delta),
        "topk_residual, 1 %": (lambda: kernels.topk_residual(delta, scratch, count, out=entries)[1], indices),
        f"scatter_decode_add, {_CLIENTS} x 1 %": (scatter, dense),
        "encode_indices, 1 %": (lambda: kernels.encode_indices(indices, elements), code),
        "decode_indices, 1 %": (lambda: kernels.decode_indices(code, count, elements), indices),
        f"encode_symbols, {_BITS} bits": (
            lambda: kernels.encode_symbols(packed, elements, bits=_BITS),
            symbols,
        ),
        f"decode_symbols, {_BITS} bits": (
            lambda: kernels.decode_symbols(symbols, elements, bits=_BITS),
            packed,
        ),
    }
    copying = 0.0
    for name, (call, expected) in calls.items():
        seconds = _median(name, call, expected, scratch)
        copying = copying or seconds
        yield KernelTime(kernel=name, seconds=seconds, copies=seconds / copying)


def _median(name: str, call: Callable[[], Array], expected: Array, scratch: Array) -> float:
    def check(result: Array) -> None:
        if not np.array_equal(result, expected):
            raise ComputationError(f"{name} gave a different result than before; see `fedplug doctor`")

    return timed(lambda _: call(), lambda: scratch.fill(0), check).seconds
