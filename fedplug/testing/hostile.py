"""Bytes that no encoder wrote: a good payload damaged in every way a stranger, or a bad line, would.

Must not know encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from fedplug.testing.suite import NotApplicable

__all__ = ["damaged", "peak_memory"]

_COUNTS = (0x7FFFFFFF, 0xFFFFFFFF, 0x08000000, 0)
_COUNTED_BYTES = 8
_FLIPS = 40
_CUTS = 16
_RANDOM = 16
_PROBE = 2**18  # TensorFlow keeps books on large tensors only


def damaged(body: bytes) -> Iterator[tuple[bytes, str]]:
    """Damaged copies of a payload, and what was done to each; always the same ones for the same payload."""
    rng = np.random.default_rng(len(body))
    for length in sorted({*range(min(len(body), _CUTS // 2)), *_some(rng, len(body), _CUTS)}):
        yield body[:length], f"cut to {length} of {len(body)} bytes"
    yield body + b"\0", "a zero byte appended"
    yield body + body, "sent twice in one"
    for bit in _some(rng, 8 * len(body), _FLIPS):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped), f"bit {bit} flipped"
    for at in range(min(len(body) - 3, _COUNTED_BYTES)):
        for count in _COUNTS:
            yield body[:at] + count.to_bytes(4, "little") + body[at + 4 :], f"{count:#x} written at byte {at}"
    for number in range(_RANDOM):
        length = len(body) if number % 2 else int(rng.integers(0, 2 * len(body) + 8))
        yield rng.bytes(length), f"{length} random bytes"


def _some(rng: np.random.Generator, below: int, count: int) -> list[int]:
    return sorted(rng.choice(below, min(count, below), replace=False).tolist()) if below else []


def peak_memory(action: Callable[[], object]) -> int:
    """The bytes of all tensors that lived at once on the CPU during a call, in TensorFlow's own books.

    The process's memory would not tell: TensorFlow keeps what it once had.

    Raises:
        NotApplicable: This TensorFlow keeps no books.
    """
    if _peak(lambda: tf.range(_PROBE) + 1) < _PROBE:
        raise NotApplicable("this TensorFlow does not tell how much memory its tensors take")
    return _peak(action)


def _peak(action: Callable[[], object]) -> int:
    try:
        tf.config.experimental.reset_memory_stats("CPU:0")
        before: int = tf.config.experimental.get_memory_info("CPU:0")["current"]
        action()
        peak: int = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    except ValueError:
        return 0
    return peak - before
