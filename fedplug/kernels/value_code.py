"""Quantized and packed values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import fedplug._kernels as _kernels
from fedplug.kernels.arguments import real, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from fedplug.types import Array, Scalar, ValueForm, Values

__all__ = [
    "ValueForm",
    "check_values",
    "decode_values",
    "encode_values",
    "encode_values_of_each",
    "frame_values",
]

_MOST_BITS = 2**31 - 1
"""The largest number that the core reads. It refuses more than 8 or 16 bits by the form."""


def encode_values(
    values: Array,
    form: ValueForm,
    *,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
) -> NDArray[np.uint8]:
    """Quantizes and packs values.

    docs/wire-format.md specifies the layouts. The encoders of the same names describe the methods and
    their sources.

    Args:
        values: Finite values. n elements in any shape, a floating dtype.
        form: ``"float16"``, ``"bfloat16"``, ``"qsgd"``, ``"nearest"`` (the bytes of ``"qsgd"``, rounded to
            nearest), ``"sign"``, ``"codebook"``, ``"bounded"`` or ``"bfp"``.
        bits: Bits per level: 2 to 8 for ``"qsgd"`` and ``"bfp"``, 1 to 8 for ``"codebook"``, unused
            otherwise.
        block_size: Number of values that share a scale, a power of two up to 2**20; for ``"qsgd"``,
            ``"nearest"`` and ``"bfp"`` only.
        relative: The largest error of a value as a share of the range of all values, 2**-15 to 1/4, rounded
            to float32; for ``"bounded"`` only.
        seed: The seed of stochastic rounding in ``"qsgd"``, in ``[-2**63, 2**63)``. The
            rounding also depends on the values.

    Returns:
        ``[bytes]`` uint8. Their number follows from the size, the dtype and the other arguments.

    Raises:
        ArgumentError: ``values`` cannot be used as an array, or another argument is out of range.
        NonFiniteError: A value is NaN or infinite. ``count`` of the error has their number.
    """
    return _kernels.encode_values(values, form, *_options(bits, block_size, relative), whole("seed", seed))


def encode_values_of_each(
    values: Sequence[Array],
    form: ValueForm,
    *,
    exact: Sequence[Array] = (),
    errors: Array | None = None,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
) -> list[NDArray[np.uint8]]:
    """Encodes a list of vectors as :func:`encode_values` does, several at the same time.

    Args:
        values: The vectors, of one dtype.
        form: The layout. See :func:`encode_values`, also for the four last arguments.
        exact: The vectors before they were rounded to the dtype of ``values``; of float32 if
            that has 16 bits, else of the same dtype.
        errors: An array to write over with ``exact`` minus the decoded values, one vector after the other.
        bits: See ``form``.
        block_size: See ``form``.
        relative: See ``form``.
        seed: See ``form``.

    Returns:
        The bytes of each vector.

    Raises:
        ArgumentError, NonFiniteError: See :func:`encode_values`.
    """
    return _kernels.encode_values_of_each(
        list(values), list(exact), errors, form, *_options(bits, block_size, relative), whole("seed", seed)
    )


def frame_values(
    values: Array,
    header: bytes,
    form: ValueForm,
    *,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: Scalar = 0,
) -> bytes:
    """Writes the container of the code that :func:`encode_values` makes of values.

    Args:
        values: See :func:`encode_values`.
        header: See :func:`~fedplug.kernels.frame`.
        form: See :func:`encode_values`.
        bits: See :func:`encode_values`.
        block_size: See :func:`encode_values`.
        relative: See :func:`encode_values`.
        seed: See :func:`encode_values`.

    Raises:
        ArgumentError: See :func:`encode_values`.
        NonFiniteError: See :func:`encode_values`.
    """
    return _kernels.frame_values(
        values, header, form, *_options(bits, block_size, relative), whole("seed", seed)
    )


def decode_values(
    data: Array,
    count: Array | int,
    form: ValueForm,
    *,
    dtype: DTypeLike = np.float32,
    bits: Array | int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    out: Array | None = None,
) -> Values:
    """Decodes values from untrusted bytes that :func:`encode_values` wrote.

    Args:
        data: ``[bytes]`` uint8.
        count: Number of values.
        form: The form of the code.
        dtype: The dtype of the encoded values.
        bits: The bits of the encoder.
        block_size: The block size of the encoder.
        relative: The error bound of the encoder.
        out: An array for the values. ``[count]`` of that dtype.

    Returns:
        ``out``, or a new ``[count]`` array of finite values.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: The bytes are not a code of ``count`` values. Their number is checked before memory is
            allocated.
    """
    return _kernels.decode_values(
        data, whole("count", count), form, np.dtype(dtype), *_options(bits, block_size, relative), out
    )


def check_values(
    data: Array,
    count: Array | int,
    form: ValueForm,
    *,
    dtype: DTypeLike = np.float32,
    bits: Array | int = 8,
    block_size: int = 256,
) -> float:
    """Checks untrusted bytes that are decoded elsewhere, and returns the largest magnitude of the values.

    Args:
        data: See :func:`decode_values`, also for the other arguments.
        count: See ``data``.
        form: Any form but ``"codebook"`` and ``"bounded"``.
        dtype: See ``data``.
        bits: See ``data``.
        block_size: See ``data``.

    Raises:
        ArgumentError: An argument is out of range.
        PayloadError: :func:`decode_values` refuses the bytes.
    """
    return _kernels.check_values(
        data, whole("count", count), form, np.dtype(dtype), *_options(bits, block_size, 0)[:2]
    )


def _options(bits: Array | int, block_size: int, relative: float) -> tuple[int, int, float]:
    return whole("bits", bits, 0, _MOST_BITS), whole("block_size", block_size), real("relative", relative)
