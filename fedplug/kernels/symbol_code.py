"""Entropy codes of symbols of a few bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fedplug._kernels as _kernels
from fedplug.kernels.arguments import whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedplug.types import Array

__all__ = ["decode_symbols", "encode_symbols", "frame_symbols", "pack_symbols", "unpack_symbols"]


def pack_symbols(symbols: Array, bits: Array | int) -> NDArray[np.uint8]:
    """Packs symbols of one byte each, the first in the lowest bits. Unused bits are 0.

    Args:
        symbols: The symbols, below ``2**bits``. n elements in any shape, uint8.
        bits: Bits per symbol, 1 to 8.

    Returns:
        ``[ceil(n * bits / 8)]`` uint8.

    Raises:
        ArgumentError: ``symbols`` cannot be used as an array or has a larger symbol, or ``bits`` is out of
            range.
    """
    return _kernels.pack_symbols(symbols, whole("bits", bits))


def unpack_symbols(packed: Array, count: Array | int, bits: Array | int) -> NDArray[np.uint8]:
    """Unpacks untrusted bytes that :func:`pack_symbols` wrote.

    Args:
        packed: ``[ceil(count * bits / 8)]`` uint8.
        count: Number of symbols, below 2**31.
        bits: Bits per symbol, 1 to 8.

    Returns:
        ``[count]`` uint8.

    Raises:
        ArgumentError: ``packed`` cannot be used as an array, or ``count`` or ``bits`` is out of range.
        PayloadError: There is another number of bytes, which is checked before memory is allocated, or unused
            bits are set.
    """
    return _kernels.unpack_symbols(packed, whole("count", count), whole("bits", bits))


def encode_symbols(packed: Array, count: Array | int, *, bits: Array | int) -> NDArray[np.uint8]:
    """Encodes symbols in about as many bits as their empirical entropy.

    docs/wire-format.md specifies the layout (Duda, arXiv:1311.2540; Giesen, arXiv:1402.3392).

    Args:
        packed: The packed symbols, lowest bit first, as :func:`encode_values` packs levels. Bits after the
            last symbol are 0. ``[ceil(count * bits / 8)]`` uint8.
        count: Number of symbols. Below 2**31.
        bits: Bits per symbol, 1 to 8.

    Returns:
        ``[bytes]`` uint8, at most one byte longer than ``packed``.

    Raises:
        ArgumentError: ``packed`` cannot be used as an array or is not ``count`` symbols of ``bits`` bits.
    """
    return _kernels.encode_symbols(packed, whole("count", count), whole("bits", bits))


def frame_symbols(data: Array, start: int, count: Array | int, header: bytes, *, bits: Array | int) -> bytes:
    """Writes the container of ``data``, with its bytes from ``start`` on encoded as symbols.

    One call for :func:`encode_symbols` and :func:`~fedplug.kernels.frame` of ``[data[:start], code]``, with
    the same bytes and errors.

    Args:
        data: ``[start + ceil(count * bits / 8)]`` uint8.
        start: Number of bytes before the symbols.
        count: See :func:`encode_symbols`.
        header: See :func:`~fedplug.kernels.frame`.
        bits: See :func:`encode_symbols`.

    Raises:
        ArgumentError: ``start`` is not in ``data``, or :func:`encode_symbols` refuses the symbols.
    """
    return _kernels.frame_symbols(
        data, whole("start", start), whole("count", count), whole("bits", bits), header
    )


def decode_symbols(code: Array, count: Array | int, *, bits: Array | int) -> NDArray[np.uint8]:
    """Decodes symbols from untrusted bytes that :func:`encode_symbols` wrote.

    Many equal symbols have a short code, so ``count`` determines how much memory is allocated. It must come
    from a trusted source.

    Args:
        code: ``[bytes]`` uint8.
        count: Number of symbols in the code.
        bits: Bits per symbol.

    Returns:
        The packed symbols. ``[ceil(count * bits / 8)]`` uint8.

    Raises:
        ArgumentError: ``code`` cannot be used as an array, or ``count`` or ``bits`` is out of range.
        PayloadError: The bytes are not a code of ``count`` symbols.
    """
    return _kernels.decode_symbols(code, whole("count", count), whole("bits", bits))
