"""Measures the memory that a call allocates, whether or not its pages are ever touched."""

from __future__ import annotations

import functools
import mmap
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from fedplug.testing.suite import CannotRun

__all__ = ["of_arrays", "of_tensors"]

_PROBE = 2**18  # TensorFlow counts large tensors only
_AGAIN = 2
_CPU = "CPU:0"

_Action = Callable[[], object]


def of_arrays(action: _Action, allowance: int = 0) -> int:
    """Returns the peak bytes that a call allocates, in Python, NumPy and kernels.

    Large requests of kernels are seen as address space, on Linux, unless malloc has as much freed memory.
    Allocations by other threads count too, as for `of_tensors`.
    """
    return _least(_peak_of_arrays, action, allowance)


def of_tensors(action: _Action, allowance: int = 0) -> int:
    """Returns the peak bytes of tensors that a call allocates through TensorFlow's CPU allocator.

    The memory of the process is no measure, because TensorFlow does not return memory. Allocations by other
    threads count too. Therefore a call above ``allowance`` is repeated, and the result is the minimum of
    three counts.

    Raises:
        CannotRun: This TensorFlow does not count.
    """
    if not _tensorflow_counts():
        raise CannotRun("this TensorFlow does not tell how much memory its tensors take")
    return _least(_peak_of_tensors, action, allowance)


def _least(peak: Callable[[_Action], int], action: _Action, allowance: int) -> int:
    least = peak(action)
    for _ in range(_AGAIN):
        if least <= allowance:
            break
        least = min(least, peak(action))
    return least


def _peak_of_arrays(action: _Action) -> int:
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        space = _growth_of_address_space(action)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        if not traced:
            tracemalloc.stop()
    return max(peak - min(before, after), space)


def _growth_of_address_space(action: _Action) -> int:
    """Runs a call and returns the growth of the largest address space so far; 0 if the system does not say.

    Reserved pages that are never touched first fill the space up to that largest size.
    """
    size, before = _address_space()
    if not before:  # Windows has no such mapping either
        action()
        return 0
    with mmap.mmap(
        -1, max(before - size, mmap.PAGESIZE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ
    ):
        action()
        return _address_space()[1] - before


def _address_space() -> tuple[int, int]:
    """Returns the bytes of the process's address space, now and at most so far."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0, 0
    found = {key: value for key, _, value in (line.partition(":") for line in lines)}
    return tuple(1024 * int(found[key].split()[0]) for key in ("VmSize", "VmPeak"))  # type: ignore[return-value]


@functools.cache
def _tensorflow_counts() -> bool:
    import tensorflow as tf  # arrays are counted without it

    return _peak_of_tensors(lambda: tf.range(_PROBE) + 1) >= _PROBE


def _peak_of_tensors(action: _Action) -> int:
    """Returns an upper bound of the call's peak, even if other threads free memory during the call."""
    import tensorflow as tf  # arrays are counted without it

    try:
        tf.config.experimental.reset_memory_stats(_CPU)
        before: int = tf.config.experimental.get_memory_info(_CPU)["current"]
        action()
        after = tf.config.experimental.get_memory_info(_CPU)
    except ValueError:
        return 0
    base: int = min(before, after["current"])
    peak: int = after["peak"]
    return peak - base
