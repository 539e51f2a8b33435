"""The rANS codes of symbols of a few bits. The layouts are specified in csrc/core/symbol_code.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedplug import kernels
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array, SymbolForm

__all__ = ["decode_symbols", "encode_symbols"]


@also_on(tensors=lambda: _tensorflow.symbol_code.encode_symbols)
def encode_symbols(
    packed: Any, count: Any, *, bits: Any, form: SymbolForm = "rans", lowering: str | None = None
) -> Array:
    """Symbols in about as many bits as their empirical entropy.

    Sources: Duda, "Asymmetric numeral systems", 2013 (arXiv 1311.2540); Giesen, "Interleaved entropy coders",
    2014 (arXiv 1402.3392); of "adaptive", Moffat, Neal, Witten, "Arithmetic coding revisited", 1998.

    Args:
        packed: The symbols one after the other, lowest bit first; bits after the last one are 0. Shape
            ``[ceil(count * bits / 8)]``, uint8.
        count: How many symbols there are, below 2^31; integer scalar.
        bits: Of each symbol, 1 to 8; integer scalar.
        form: "rans", with a table of their frequencies; or "adaptive", which learns them as it goes and on
            tensors needs the compiled op.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The code, at most a byte longer than ``packed``, "adaptive" never longer; shape ``[bytes]``, uint8.

    Raises:
        ValueError: A static rank is wrong, or ``bits`` is out of range.
        UnknownNameError: ``form`` or ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        LoweringError: "adaptive" on tensors without the compiled op.
        tf.errors.InvalidArgumentError: When run: ``packed`` is not ``count`` symbols.
    """
    return kernels.encode_symbols(np.asarray(packed, np.uint8), int(count), bits=int(bits), form=form)


@also_on(tensors=lambda: _tensorflow.symbol_code.decode_symbols)
def decode_symbols(
    code: Any, count: Any, *, bits: Any, form: SymbolForm = "rans", lowering: str | None = None
) -> Array:
    """The inverse of `encode_symbols`, for untrusted bytes.

    Many equal symbols have a short code, so ``count`` decides how much memory is taken: it must come from
    where the caller knows it.

    Args:
        code: Shape ``[bytes]``, uint8.
        count: How many symbols the code holds, below 2^31; integer scalar.
        bits: Of each symbol, 1 to 8; integer scalar.
        form: That of the code.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.lowering.use_lowering`.

    Returns:
        The symbols, packed; shape ``[ceil(count * bits / 8)]``, uint8.

    Raises:
        ValueError: A static rank is wrong, or ``bits`` is out of range.
        UnknownNameError: ``form`` or ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        LoweringError: "adaptive" on tensors without the compiled op.
        tf.errors.InvalidArgumentError: When run: the bytes are not a code of ``count`` symbols.
    """
    return kernels.decode_symbols(np.asarray(code, np.uint8), int(count), bits=int(bits), form=form)
