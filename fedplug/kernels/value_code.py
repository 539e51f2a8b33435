"""Values, quantized and packed: the bytes that travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from fedplug import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

__all__ = ["ValueForm", "decode_values", "encode_values", "encode_values_of_each", "frame_values"]

ValueForm: TypeAlias = Literal[
    "float16", "bfloat16", "blockwise8", "qsgd", "terngrad", "sign", "codebook", "bounded", "bfp"
]


def encode_values(
    values: NDArray[Any],
    form: ValueForm,
    *,
    bits: int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: int = 0,
) -> NDArray[np.uint8]:
    """Quantizes and packs values: the bytes that travel.

    The layouts are described in ``csrc/core/value_code.h``, the methods and their sources by the encoders of
    the same names.

    Args:
        values: Any shape, n elements, a floating dtype; finite.
        form: ``"float16"``, ``"bfloat16"``, ``"blockwise8"``, ``"qsgd"``, ``"terngrad"``, ``"sign"``,
            ``"codebook"``, ``"bounded"`` or ``"bfp"``.
        bits: Of each level: 2 to 8 for ``"qsgd"`` and ``"bfp"``, 1 to 8 for ``"codebook"``; others do not
            look at it.
        block_size: How many values share a scale, a power of two up to 2**20; ``"qsgd"``,
            ``"blockwise8"`` and ``"bfp"`` only.
        relative: The largest error of a value, as a share of the range of all of them, 2**-15 to 1/4; rounded
            to float32. ``"bounded"`` only.
        seed: Of the noise by which ``"qsgd"`` and ``"terngrad"`` round, in ``[-2**63, 2**63)``. The noise
            also depends on the values.

    Returns:
        ``[bytes]`` uint8; as many as the size, the dtype and the other arguments say.

    Raises:
        ArgumentError: ``values`` cannot be used as an array, or another argument is out of range.
        NonFiniteError: A value is NaN or infinite; its ``count`` says how many are.
    """
    return _kernels.encode_values(values, form, bits, block_size, relative, seed)


def encode_values_of_each(
    values: Sequence[NDArray[Any]],
    form: ValueForm,
    *,
    exact: Sequence[NDArray[Any]] = (),
    errors: NDArray[Any] | None = None,
    bits: int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: int = 0,
) -> list[NDArray[np.uint8]]:
    """Encodes a list of vectors as :func:`encode_values` does, several at the same time.

    Args:
        values: The vectors, of one dtype.
        form: The layout; see :func:`encode_values`, also for the four last arguments.
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
        ArgumentError, NonFiniteError: As for :func:`encode_values`.
    """
    return _kernels.encode_values_of_each(
        list(values), list(exact), errors, form, bits, block_size, relative, seed
    )


def frame_values(
    values: NDArray[Any],
    header: bytes,
    form: ValueForm,
    *,
    bits: int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    seed: int = 0,
) -> bytes:
    """The container of what :func:`encode_values` makes of values, written at once.

    Args:
        values: As for :func:`encode_values`, and so all the others but
        header: As for :func:`~fedplug.kernels.frame`.
        form: See ``values``.
        bits: See ``values``.
        block_size: See ``values``.
        relative: See ``values``.
        seed: See ``values``.

    Raises:
        ArgumentError, NonFiniteError: As :func:`encode_values`.
    """
    return _kernels.frame_values(values, header, form, bits, block_size, relative, seed)


def decode_values(
    data: NDArray[np.uint8],
    count: int,
    form: ValueForm,
    *,
    dtype: DTypeLike = np.float32,
    bits: int = 8,
    block_size: int = 256,
    relative: float = 0.01,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Unpacks what :func:`encode_values` packed. Every byte is treated as hostile.

    Args:
        data: ``[bytes]`` uint8.
        count: How many values there must be.
        form: As they were encoded, and so ``bits``, ``block_size`` and ``relative``.
        dtype: The dtype of the values that were encoded.
        bits: See ``form``.
        block_size: See ``form``.
        relative: See ``form``.
        out: ``[count]`` of that dtype, to be written over; after an error it holds anything.

    Returns:
        ``out``, or a new ``[count]`` array: what the bytes stand for; finite.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: These are not the bytes of ``count`` values. Memory is only asked for if their number is
            right.
    """
    return _kernels.decode_values(data, count, form, np.dtype(dtype), bits, block_size, relative, out)
