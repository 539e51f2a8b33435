"""Codes of strictly ascending indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from fedplug import _kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["decode_indices", "encode_indices"]

IndexForm: TypeAlias = Literal["rice", "bitpack", "bitmap", "shortest", "gaps"]


def encode_indices(indices: NDArray[np.int32], size: int, *, form: IndexForm = "rice") -> NDArray[np.uint8]:
    """Packs strictly ascending indices; in Rice code that takes about 8.1 bits each at a density of 1 %.

    The code of given indices is unique. The layouts are described in ``csrc/core/index_code.h`` (Rice and
    Plaunt, IEEE Trans. Commun. 1971).

    Args:
        indices: ``[count]`` int32, strictly ascending, in ``[0, size)``.
        size: How many positions there are; below 2**31.
        form: ``"rice"``, gaps in the shortest Rice code; ``"bitpack"``, each in the bits that the largest
            needs; ``"bitmap"``, a bit for every position; ``"shortest"``, whichever of these is, and a byte
            that says so; or ``"gaps"``, gaps in an adaptive code.

    Returns:
        ``[bytes]`` uint8.

    Raises:
        ArgumentError: An array cannot be used, there is no such form, or an index is out of range or not
            above the one before it.
    """
    return _kernels.encode_indices(indices, size, form)


def decode_indices(
    code: NDArray[np.uint8],
    count: int,
    size: int,
    *,
    form: IndexForm = "rice",
    out: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    """Unpacks what :func:`encode_indices` packed. Every byte is treated as hostile.

    Args:
        code: ``[bytes]`` uint8.
        count: How many indices the code holds.
        size: How many positions there are; below 2**31.
        form: As they were encoded.
        out: ``[count]`` int32, to be written over; after an error it holds anything.

    Returns:
        ``out``, or a new array: ``[count]`` int32, strictly ascending, in ``[0, size)``. Encoding them gives
        ``code`` again.

    Raises:
        ArgumentError: An array cannot be used, ``out`` has not ``count`` elements, there is no such form, or
            not ``0 <= count <= size < 2**31``.
        PayloadError: No ``count`` indices below ``size`` have this code.
    """
    return _kernels.decode_indices(code, count, size, form, out)
