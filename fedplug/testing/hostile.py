"""Bytes that no encoder wrote: a good payload damaged in every way a stranger, or a bad line, would.

Must not know encoders.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from fedplug.testing.suite import NotApplicable

__all__ = ["damaged", "peak_memory"]

_COUNTS = (0x7FFFFFFF, 0xFFFFFFFF, 0x08000000, 0)
_COUNTED_BYTES = 8
_LEB128_COUNTS = (b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\x80\x00", b"\xff" * 6)
"""2^31 - 1; 2^31; 0 in more bytes than it needs; a number that does not end."""
_FLIPS = 40
_CUTS = 16
_RANDOM = 16
_PROBE = 2**18  # TensorFlow counts large tensors only
_AGAIN = 2
_CPU = "CPU:0"


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
    for at in range(min(len(body), 2)):
        for leb128 in _LEB128_COUNTS:
            yield body[:at] + leb128 + body[at + 1 :], f"the number {leb128.hex()} written at byte {at}"
    for number in range(_RANDOM):
        length = len(body) if number % 2 else int(rng.integers(0, 2 * len(body) + 8))
        yield rng.bytes(length), f"{length} random bytes"


def _some(rng: np.random.Generator, below: int, count: int) -> list[int]:
    return sorted(rng.choice(below, min(count, below), replace=False).tolist()) if below else []


def peak_memory(action: Callable[[], object], allowance: int = 0) -> int:
    """The most bytes of tensors that a call asked TensorFlow's CPU allocator for at once.

    The allocator counts what was asked for, whether or not a page of it was ever touched; the memory of the
    process would not tell, as TensorFlow keeps what it once had. The count is of the whole process: what
    another thread asks for meanwhile is in it. So a call that seems to take more than ``allowance`` is made
    again, and the least of three counts is the answer.

    Raises:
        NotApplicable: This TensorFlow does not count.
    """
    if not _counts():
        raise NotApplicable("this TensorFlow does not tell how much memory its tensors take")
    least = _peak(action)
    for _ in range(_AGAIN):
        if least <= allowance:
            break
        least = min(least, _peak(action))
    return least


@functools.cache
def _counts() -> bool:
    return _peak(lambda: tf.range(_PROBE) + 1) >= _PROBE


def _peak(action: Callable[[], object]) -> int:
    """At least what the call took: what others free during it, be it all they had, hides nothing of that."""
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
