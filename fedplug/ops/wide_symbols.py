"""Symbols of 9 to 16 bits, and their parts for an entropy coder of bytes; on NumPy arrays only.

docs/wire-format.md specifies the parts and their code. The range of outliers does not determine which bits of
the other symbols are coded, because places far from the others are sent apart. A place near ``first`` may be
among them: a rare byte would take more of a table of frequencies than it is worth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.errors import PayloadError
from fedplug.ops.checks import of_length
from fedplug.ops.packing import pack, packed_size, unpack
from fedplug.ops.types import Array

__all__ = ["BYTE_BITS", "join_wide", "pack_wide", "split_aside", "split_wide", "unpack_wide"]

BYTE_BITS = 8

_HEAD_BYTES = 7

_NO_BYTE = 255
"""The byte of a symbol whose place is among ``places``; also the number of places that have a byte."""

_SAMPLE_BITS = 18
"""The encoder looks at 2^18 to 2^19 symbols, evenly spaced; at all if there are fewer."""

_RAREST = 2**15
"""Places rarer than 1 in this number of sampled symbols get no byte."""

_PLACE_BITS = 16

_COST_UNIT = 2**16
"""The cost of one bit. Costs are whole numbers, so that sums do not depend on their order."""

_BLOCK = 2**16


def pack_wide(symbols: Array, bits: int) -> Array:
    """Packs symbols of 9 to 16 bits in two parts; a uint8 vector."""
    array, low_bits = np.asarray(symbols), bits - BYTE_BITS
    low = (array & (2**low_bits - 1)).astype(np.uint8)
    return np.concatenate([pack(low, low_bits), (array >> low_bits).astype(np.uint8)])


def unpack_wide(packed: Array, count: Array | int, bits: int) -> Array:
    """Unpacks the result of `pack_wide`. uint16 ``[count]``.

    Raises:
        PayloadError: There is another number of bytes, or unused bits are set.
    """
    return _joined(*_parts(packed, count, bits), bits)


def split_wide(packed: Array, count: Any, bits: int) -> tuple[Array, Array]:
    """Splits packed symbols into the bytes before an entropy code, and the byte of each symbol.

    The shift, the first place and the places without a byte are those of the least estimated size: the
    entropy of the bytes, the low bits, and 16 bits for each symbol without a byte.
    """
    low, high = _parts(packed, count, bits)
    step = max(1, count >> _SAMPLE_BITS)
    shift, first, kept = _chosen(_joined(low[::step], high[::step], bits), bits)
    byte_of = np.full(2 ** (bits - shift), _NO_BYTE, np.uint8)
    byte_of[first : first + _NO_BYTE][kept] = np.flatnonzero(kept)
    found, apart = kernels.empty((count,), np.dtype(np.uint8)), [np.zeros(0, np.uint16)]
    for at in range(0, count, _BLOCK):
        here = slice(at, at + _BLOCK)
        symbols = _joined(low[here], high[here], bits)
        places = symbols >> np.uint16(shift)
        found[here] = byte_of[places]
        apart.append(places[found[here] == _NO_BYTE])
        low[here] = symbols & np.uint16(2**shift - 1)
    of_apart = np.concatenate(apart).astype("<u2").view(np.uint8)
    head = [shift.to_bytes(1, "little"), first.to_bytes(2, "little")]
    head.append((of_apart.size // 2).to_bytes(4, "little"))
    lowest = pack(low, shift) if shift else low[:0]
    return np.concatenate([np.frombuffer(b"".join(head), np.uint8), lowest, of_apart]), found


def split_aside(data: Array, count: Array | int, bits: int) -> tuple[Array, Array]:
    """Splits untrusted bytes into those before an entropy code, and the code.

    Raises:
        PayloadError: There are too few bytes, or they are not the start of a code of ``count`` symbols.
    """
    if len(data) < _HEAD_BYTES:
        raise PayloadError("a code of wide symbols is too short to hold its head")
    shift, _, number = _head(data)
    if shift > bits - BYTE_BITS or number > count:
        raise PayloadError(
            f"a code of {count} symbols of {bits} bits has a shift of {shift} and {number} symbols apart"
        )
    end = _HEAD_BYTES + packed_size(count, shift) + 2 * number
    if len(data) < end:
        raise PayloadError("a code of wide symbols is too short to hold its low bits and places")
    return data[:end], data[end:]


def join_wide(aside: Array, found: Array, count: Array | int, bits: int) -> Array:
    """Joins the result of `split_aside` and the byte of each symbol to packed symbols, as `pack_wide` writes.

    Raises:
        PayloadError: `split_wide` does not write such bytes.
    """
    shift, first, number = _head(aside)
    places_at = _HEAD_BYTES + packed_size(count, shift)
    apart = np.ascontiguousarray(aside[places_at:]).view("<u2")
    end = 2 ** (bits - shift)
    if first > end - _NO_BYTE or (apart >= end).any():
        raise PayloadError("a code of wide symbols has a place that does not exist")
    if np.count_nonzero(found == _NO_BYTE) != number:
        raise PayloadError("a code of wide symbols has not as many places as symbols without a byte")
    lowest, low_bits = aside[_HEAD_BYTES:places_at], bits - BYTE_BITS
    wanted = "the low bits of a code of symbols"
    low = np.asarray(unpack(lowest, count, shift, wanted) if shift else np.zeros_like(found))
    high_at, used = packed_size(count, low_bits), 0
    packed = kernels.empty((high_at + count,), np.dtype(np.uint8))
    for at in range(0, count, _BLOCK):
        here = slice(at, at + _BLOCK)
        symbols = np.add(found[here], np.uint16(first), dtype=np.uint16)
        without = np.flatnonzero(found[here] == _NO_BYTE)
        symbols[without] = apart[used : used + without.size]
        used += without.size
        symbols = (symbols << np.uint16(shift)) | low[here]
        low[here] = symbols & np.uint16(2**low_bits - 1)
        packed[high_at:][here] = symbols >> np.uint16(low_bits)
    packed[:high_at] = pack(low, low_bits)
    return packed


def _parts(packed: Array, count: Array | int, bits: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Returns the low bits and the highest 8 bits of every symbol."""
    high_at = packed_size(count, bits - BYTE_BITS)
    low = unpack(packed[:high_at], count, bits - BYTE_BITS, "the low bits of symbols")
    high = of_length(packed[high_at:], count, "the high bits of symbols")
    return np.asarray(low), np.asarray(high)


def _joined(low: NDArray[np.uint8], high: NDArray[np.uint8], bits: int) -> NDArray[np.uint16]:
    return (high.astype(np.uint16) << np.uint16(bits - BYTE_BITS)) | low


def _head(data: Array) -> tuple[int, int, int]:
    head = bytes(np.asarray(data[:_HEAD_BYTES]))
    return head[0], int.from_bytes(head[1:3], "little"), int.from_bytes(head[3:], "little")


def _chosen(sample: NDArray[np.uint16], bits: int) -> tuple[int, int, NDArray[np.bool_]]:
    """Returns the shift, the first place, and which of the places from it on have a byte."""
    counts = np.bincount(sample, minlength=2**bits)
    choices = []
    for shift in range(bits - BYTE_BITS + 1):
        if shift:
            counts = counts.reshape(-1, 2).sum(axis=1)
        up_to = np.concatenate([[0], np.cumsum(counts)])
        first = int(np.argmax(up_to[_NO_BYTE:] - up_to[:-_NO_BYTE]))
        window = counts[first : first + _NO_BYTE]
        kept = (window > 0) & (window * _RAREST >= sample.size)
        apart = sample.size - int(window[kept].sum())
        cost = _cost(np.append(window[kept], apart), sample.size)
        choices.append((cost + _COST_UNIT * (shift * sample.size + _PLACE_BITS * apart), shift, first, kept))
    return min(choices, key=lambda choice: choice[0])[1:]


def _cost(counts: NDArray[np.int64], total: int) -> int:
    """The entropy of bytes times their number. Whole numbers, so that sums have no order."""
    logarithms = np.rint(_COST_UNIT * np.log2(np.maximum(counts, 1))).astype(np.int64)
    return total * round(_COST_UNIT * float(np.log2(max(total, 1)))) - int((counts * logarithms).sum())
