"""The rANS code of symbols of a few bits. The layout is specified in csrc/core/symbol_code.h."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._arguments import as_int64, require_vectors
from fedplug.ops._reference import symbol_code as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["decode_symbols", "encode_symbols"]

tf.no_gradient("Fedplug>EncodeSymbols")
tf.no_gradient("Fedplug>DecodeSymbols")


def encode_symbols(packed: Any, count: Any, *, bits: Any, lowering: str | None = None) -> tf.Tensor:
    """Symbols in about as many bits as their empirical entropy.

    Sources: Duda, "Asymmetric numeral systems", 2013 (arXiv 1311.2540); Giesen, "Interleaved entropy coders",
    2014 (arXiv 1402.3392).

    Args:
        packed: The symbols one after the other, lowest bit first; bits after the last one are 0. Shape
            ``[ceil(count * bits / 8)]``, uint8.
        count: How many symbols there are, below 2^31; integer scalar.
        bits: Of each symbol, 1 to 8; integer scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        The code, at most a byte longer than ``packed``; shape ``[bytes]``, uint8.

    Raises:
        ValueError: A static rank is wrong, or ``bits`` is out of range.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: ``packed`` is not ``count`` symbols.
    """
    packed = tf.convert_to_tensor(packed, tf.uint8)
    count = as_int64(count)
    require_vectors(packed=packed)
    bits = _checked_bits(bits)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_encode_symbols(packed, count, bits)
    return reference.encode(packed, count, bits)


def decode_symbols(code: Any, count: Any, *, bits: Any, lowering: str | None = None) -> tf.Tensor:
    """The inverse of `encode_symbols`, for untrusted bytes.

    Many equal symbols have a short code, so ``count`` decides how much memory is taken: it must come from
    where the caller knows it.

    Args:
        code: Shape ``[bytes]``, uint8.
        count: How many symbols the code holds, below 2^31; integer scalar.
        bits: Of each symbol, 1 to 8; integer scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        The symbols, packed; shape ``[ceil(count * bits / 8)]``, uint8.

    Raises:
        ValueError: A static rank is wrong, or ``bits`` is out of range.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the bytes are not a code of ``count`` symbols.
    """
    code = tf.convert_to_tensor(code, tf.uint8)
    count = as_int64(count)
    require_vectors(code=code)
    bits = _checked_bits(bits)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_decode_symbols(code, count, bits)
    return reference.decode(code, count, bits)


def _checked_bits(bits: Any) -> tf.Tensor:
    if isinstance(bits, int) and not 1 <= bits <= 8:
        raise ValueError(f"bits is {bits}; a symbol has 1 to 8")
    return as_int64(bits)
