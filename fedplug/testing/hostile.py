"""Bytes that no encoder wrote: a valid payload, damaged as by an attacker or a bad connection."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["damaged"]

_COUNTS = (0x7FFFFFFF, 0xFFFFFFFF, 0x08000000, 0)
_COUNTED_BYTES = 8
_LEB128_COUNTS = (b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\x80\x00", b"\xff" * 6)
"""2^31 - 1; 2^31; 0 in more bytes than it needs; a number that does not end."""
_FLIPS = 40
_CUTS = 16
_RANDOM = 16


def damaged(body: bytes) -> Iterator[tuple[bytes, str]]:
    """Yields damaged copies of a payload with a description of the damage. The same for equal payloads."""
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
