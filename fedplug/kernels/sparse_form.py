"""The body of a sparse payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedplug import _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fedplug.kernels.index_code import IndexForm

__all__ = ["frame_entries", "frame_entries_of_each", "read_entries", "sparse_body", "split_sparse_body"]


def sparse_body(count: int, index_code: NDArray[np.uint8], values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Writes the number of entries, their index code and their values one behind the other.

    The layout is described in ``csrc/core/sparse_form.h``.

    Args:
        count: The number of entries, below 2**31.
        index_code: Where they are, ``[bytes]`` uint8.
        values: The bytes of their values, ``[bytes]`` uint8.

    Returns:
        ``[bytes]`` uint8.

    Raises:
        ArgumentError: An array cannot be used, or ``count`` or the length of ``index_code`` is out of range.
    """
    return _kernels.sparse_body(count, index_code, values)


def split_sparse_body(
    body: NDArray[np.uint8], elements: int
) -> tuple[int, NDArray[np.uint8], NDArray[np.uint8]]:
    """Finds the parts of a body. Every byte is treated as hostile.

    Args:
        body: ``[bytes]`` uint8.
        elements: Of the tensor the entries are of.

    Returns:
        ``(count, index_code, values)``; ``count`` is in ``[0, elements]``, the others are read-only parts of
        ``body``.

    Raises:
        ArgumentError: ``body`` cannot be used as an array.
        PayloadError: The numbers cannot be read, are not in their fewest bytes, or do not fit.
    """
    return _kernels.split_sparse_body(body, elements)


def read_entries(
    body: NDArray[np.uint8], elements: int, dtype: np.dtype[Any], *, form: IndexForm = "rice"
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The entries of a body whose values are uncompressed. Every byte is treated as hostile.

    What :func:`split_sparse_body`, :func:`finite_from_bytes` and :func:`decode_indices` find one after the
    other, with the same bits and errors, in one call.

    Args:
        body: ``[bytes]`` uint8.
        elements: Of the tensor the entries are of; below 2**31.
        dtype: Of the values, a floating one.
        form: Of the index code.

    Returns:
        ``(values, indices)``, ``[count]`` each: finite, read-only where they are part of ``body``; and int32,
        strictly ascending, in ``[0, elements)``.

    Raises:
        ArgumentError: ``body`` or ``dtype`` cannot be used, or there is no such form.
        PayloadError: As for those three, or there are not ``count`` values.
    """
    return _kernels.read_entries(body, elements, dtype, form)


def frame_entries(
    indices: NDArray[np.int32],
    elements: int,
    values: NDArray[Any],
    header: bytes,
    *,
    form: IndexForm = "rice",
) -> bytes:
    """The container of a sparse payload, written at once.

    What :func:`all_finite`, :func:`encode_indices`, :func:`sparse_body` and :func:`frame` do one after the
    other, with the same bytes and errors.

    Args:
        indices: ``[count]`` int32, strictly ascending, in ``[0, elements)``.
        elements: Of the tensor the entries are of; below 2**31.
        values: ``[count]`` of a floating dtype, sent as they are; or uint8, the bytes of their code.
        header: As for :func:`frame`.
        form: Of the index code.

    Raises:
        ArgumentError: An array cannot be used, there are not as many values as indices, or as for
            :func:`encode_indices`.
        NonFiniteError: A value that would be sent as it is is NaN or infinite.
    """
    return _kernels.frame_entries(indices, elements, values, header, form)


def frame_entries_of_each(
    indices: Sequence[NDArray[np.int32]],
    elements: Sequence[int],
    values: Sequence[NDArray[Any]],
    headers: Sequence[bytes],
    *,
    form: IndexForm = "rice",
) -> list[bytes]:
    """Writes a list of containers as :func:`frame_entries` does, several at the same time.

    Args:
        indices: The indices of each tensor.
        elements: The number of elements of each tensor.
        values: The values of each tensor, or the bytes of their code.
        headers: The container header of each payload.
        form: The form of the index codes.

    Raises:
        ArgumentError, NonFiniteError: As for :func:`frame_entries`.
    """
    return _kernels.frame_entries_of_each(list(indices), list(elements), list(values), list(headers), form)
