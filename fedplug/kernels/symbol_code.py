"""The rANS codes of symbols of a few bits: entropy coders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["decode_symbols", "encode_symbols", "frame_symbols"]

SymbolForm: TypeAlias = Literal["rans", "adaptive"]


def encode_symbols(
    packed: NDArray[np.uint8], count: int, *, bits: int, form: SymbolForm = "rans"
) -> NDArray[np.uint8]:
    """Writes symbols in about as many bits as their empirical entropy, and never more than a byte above that.

    The layout is described in ``csrc/core/symbol_code.h`` (Duda, arXiv:1311.2540; Giesen, arXiv:1402.3392).

    Args:
        packed: ``[ceil(count * bits / 8)]`` uint8: the symbols one after the other, lowest bit first, as
            :func:`encode_values` packs levels. Bits after the last symbol are 0.
        count: How many symbols there are; below 2**31.
        bits: Of each symbol, 1 to 8.
        form: ``"rans"``, with a table of their frequencies; or ``"adaptive"``, which learns them, and takes
            less of few symbols and where they change along the way, and 30 to 90 times as long.

    Returns:
        ``[bytes]`` uint8, at most one more than ``packed`` has; of ``"adaptive"`` none more.

    Raises:
        ArgumentError: ``packed`` cannot be used as an array, or is not ``count`` symbols of ``bits`` bits;
            or there is no such form.
    """
    return _kernels.encode_symbols(packed, count, bits, form)


def frame_symbols(
    data: NDArray[np.uint8], start: int, count: int, header: bytes, *, bits: int, form: SymbolForm = "rans"
) -> bytes:
    """The container of bytes of which all from ``start`` on are symbols and are coded, written at once.

    What :func:`encode_symbols` and :func:`~fedplug.kernels.frame` of ``[data[:start], code]`` do one after
    the other, with the same bytes and errors.

    Args:
        data: ``[start + ceil(count * bits / 8)]`` uint8.
        start: How many bytes come before the symbols.
        count: As for :func:`encode_symbols`.
        header: As for :func:`~fedplug.kernels.frame`.
        bits: As for :func:`encode_symbols`.
        form: As for :func:`encode_symbols`.

    Raises:
        ArgumentError: As for :func:`encode_symbols`, or ``start`` is not in ``data``.
    """
    return _kernels.frame_symbols(data, start, count, bits, form, header)


def decode_symbols(
    code: NDArray[np.uint8], count: int, *, bits: int, form: SymbolForm = "rans"
) -> NDArray[np.uint8]:
    """Reads what :func:`encode_symbols` wrote. Every byte is treated as hostile.

    Many equal symbols have a short code, so ``count`` decides how much memory is taken: it must come from
    where the caller knows it.

    Args:
        code: ``[bytes]`` uint8.
        count: How many symbols the code holds.
        bits: Of each symbol.
        form: As they were encoded.

    Returns:
        ``[ceil(count * bits / 8)]`` uint8: the symbols, packed.

    Raises:
        ArgumentError: ``code`` cannot be used as an array, ``count`` or ``bits`` is out of range, or
            there is no such form.
        PayloadError: These are not the bytes of a code of ``count`` symbols.
    """
    return _kernels.decode_symbols(code, count, bits, form)
