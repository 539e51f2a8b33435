"""Entropy codes of symbols of a few bits. docs/wire-format.md specifies the layout."""

from __future__ import annotations

import numpy as np

import fedplug.kernels as kernels
from fedplug.kernels.arguments import whole_numbers
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["decode_symbols", "encode_symbols"]


@also_on(tensors=lambda: _tensorflow.symbol_code.encode_symbols)
def encode_symbols(
    packed: Array, count: Array | int, *, bits: Array | int, lowering: str | None = None
) -> Array:
    """Encodes symbols in about as many bits as their empirical entropy.

    Sources: Duda, "Asymmetric numeral systems", 2013 (arXiv 1311.2540). Giesen, "Interleaved entropy coders",
    2014 (arXiv 1402.3392).

    Args:
        packed: The packed symbols, lowest bit first. Bits after the last symbol are 0.
            ``[ceil(count * bits / 8)]``, uint8.
        count: Number of symbols, below 2^31. Integer scalar.
        bits: Bits per symbol, 1 to 8. Integer scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The code, at most one byte longer than ``packed``. ``[bytes]``, uint8.

    Raises:
        ArgumentError: ``bits`` is out of range, or ``packed`` is not ``count`` symbols.
    """
    return kernels.encode_symbols(whole_numbers("packed", packed, np.uint8), count, bits=bits)


@also_on(tensors=lambda: _tensorflow.symbol_code.decode_symbols)
def decode_symbols(
    code: Array, count: Array | int, *, bits: Array | int, lowering: str | None = None
) -> Array:
    """Decodes symbols from untrusted bytes.

    Many equal symbols have a short code, so ``count`` determines how much memory is allocated. The caller
    must know it from a trusted source.

    Args:
        code: ``[bytes]``, uint8.
        count: Number of symbols, below 2^31. Integer scalar.
        bits: Bits per symbol, 1 to 8. Integer scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The packed symbols. ``[ceil(count * bits / 8)]``, uint8.

    Raises:
        PayloadError: The bytes are not a code of ``count`` symbols.
    """
    return kernels.decode_symbols(whole_numbers("code", code, np.uint8), count, bits=bits)
