"""How much memory a call takes: what it asked for, whether or not a page of it was ever touched.

Must not know what is called.
"""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable

from fedplug.testing.suite import NotApplicable

__all__ = ["of_arrays", "of_tensors"]

_PROBE = 2**18  # TensorFlow counts large tensors only
_AGAIN = 2
_CPU = "CPU:0"

_Action = Callable[[], object]


def of_arrays(action: _Action, allowance: int = 0) -> int:
    """The most bytes that a call asked Python and NumPy for at once; not what C++ code keeps to itself.

    As for `of_tensors`, what other threads ask for is in it.
    """
    return _least(_peak_of_arrays, action, allowance)


def of_tensors(action: _Action, allowance: int = 0) -> int:
    """The most bytes of tensors that a call asked TensorFlow's CPU allocator for at once.

    The memory of the process would not tell, as TensorFlow keeps what it once had. The count is of the whole
    process: what another thread asks for meanwhile is in it. So a call that seems to take more than
    ``allowance`` is made again, and the least of three counts is the answer.

    Raises:
        NotApplicable: This TensorFlow does not count.
    """
    if not _tensorflow_counts():
        raise NotApplicable("this TensorFlow does not tell how much memory its tensors take")
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
        action()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        if not traced:
            tracemalloc.stop()
    return peak - min(before, after)


@functools.cache
def _tensorflow_counts() -> bool:
    import tensorflow as tf  # arrays are counted without it

    return _peak_of_tensors(lambda: tf.range(_PROBE) + 1) >= _PROBE


def _peak_of_tensors(action: _Action) -> int:
    """At least what the call took: what others free during it, be it all they had, hides nothing of that."""
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
