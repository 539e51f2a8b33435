"""Sparse payloads: the codes of indices, the body, and dense sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fedplug._kernels as _kernels
from fedplug.kernels.arguments import whole
from fedplug.types import DType, Values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fedplug.types import Array, IndexForm


__all__ = [
    "decode_indices",
    "encode_indices",
    "frame_entries",
    "frame_entries_of_each",
    "read_entries",
    "scatter_decode",
    "sparse_body",
    "split_sparse_body",
]


def encode_indices(indices: Array, size: Array | int, *, form: IndexForm = "rice") -> NDArray[np.uint8]:
    """Encodes strictly ascending indices. The Rice code needs about 8.1 bits per index at a density of 1 %.

    The code of given indices is unique. docs/wire-format.md specifies the layouts (Rice and Plaunt,
    IEEE Trans. Commun. 1971).

    Args:
        indices: ``[count]`` int32, strictly ascending, in ``[0, size)``.
        size: Number of elements that the indices refer to. Below 2**31.
        form: ``"rice"`` writes gaps in the shortest Rice code, ``"gaps"`` in an adaptive code.

    Returns:
        ``[bytes]`` uint8.

    Raises:
        ArgumentError: An array or the form cannot be used, or an index is out of range or not above the one
            before it.
    """
    return _kernels.encode_indices(indices, whole("size", size), form)


def decode_indices(
    code: Array,
    count: Array | int,
    size: Array | int,
    *,
    form: IndexForm = "rice",
    out: Array | None = None,
) -> NDArray[np.int32]:
    """Decodes indices from untrusted bytes that :func:`encode_indices` wrote.

    Args:
        code: ``[bytes]`` uint8.
        count: Number of indices in the code.
        size: Number of elements that the indices refer to. Below 2**31.
        form: The form of the code.
        out: An array for the indices. ``[count]`` int32.

    Returns:
        ``out``, or a new array: ``[count]`` int32, strictly ascending, in ``[0, size)``. Encoding them gives
        ``code`` again.

    Raises:
        ArgumentError: An array or the form cannot be used, ``out`` does not have ``count`` elements, or
            ``0 <= count <= size < 2**31`` does not hold.
        PayloadError: This is not the code of ``count`` indices below ``size``.
    """
    return _kernels.decode_indices(code, whole("count", count), whole("size", size), form, out)


def sparse_body(count: Array | int, index_code: Array, values: Array) -> NDArray[np.uint8]:
    """Writes the number of entries, their index code and their values one after the other.

    docs/wire-format.md specifies the layout.

    Args:
        count: Number of entries, below 2**31.
        index_code: The code of their indices. ``[bytes]`` uint8.
        values: The bytes of their values. ``[bytes]`` uint8.

    Returns:
        ``[bytes]`` uint8.

    Raises:
        ArgumentError: An array cannot be used, or ``count`` or the length of ``index_code`` is out of range.
    """
    return _kernels.sparse_body(whole("count", count), index_code, values)


def split_sparse_body(body: Array, elements: int) -> tuple[int, NDArray[np.uint8], NDArray[np.uint8]]:
    """Splits a body into its parts, from untrusted bytes.

    Args:
        body: ``[bytes]`` uint8.
        elements: Number of elements of the tensor.

    Returns:
        ``(count, index_code, values)``. ``count`` is in ``[0, elements]``, the others are read-only parts of
        ``body``.

    Raises:
        ArgumentError: ``body`` cannot be used as an array.
        PayloadError: The numbers cannot be read, are not in their shortest form, or do not fit.
    """
    return _kernels.split_sparse_body(body, whole("elements", elements))


def read_entries(
    body: Array, elements: int, dtype: DType, *, form: IndexForm = "rice"
) -> tuple[Values, NDArray[np.int32]]:
    """Reads the entries of a body with uncompressed values, from untrusted bytes.

    One call for :func:`split_sparse_body`, :func:`finite_from_bytes` and :func:`decode_indices`, with the
    same bits and errors.

    Args:
        body: ``[bytes]`` uint8.
        elements: Number of elements of the tensor. Below 2**31.
        dtype: The floating dtype of the values.
        form: The form of the index code.

    Returns:
        ``(values, indices)``, ``[count]`` each. Values are finite, and read-only if they are part of
        ``body``. Indices are int32, strictly ascending, in ``[0, elements)``.

    Raises:
        ArgumentError: ``body``, ``dtype`` or ``form`` cannot be used.
        PayloadError: One of the three functions refuses the bytes, or there are not ``count`` values.
    """
    return _kernels.read_entries(body, whole("elements", elements), dtype, form)


def frame_entries(
    indices: Array,
    elements: int,
    values: Array,
    header: bytes,
    *,
    form: IndexForm = "rice",
) -> bytes:
    """Writes the container of a sparse payload.

    One call for :func:`all_finite`, :func:`encode_indices`, :func:`sparse_body` and :func:`frame`, with the
    same bytes and errors.

    Args:
        indices: ``[count]`` int32, strictly ascending, in ``[0, elements)``.
        elements: Number of elements of the tensor. Below 2**31.
        values: ``[count]`` of a floating dtype, sent uncompressed, or uint8, the bytes of their code.
        header: See :func:`frame`.
        form: The form of the index code.

    Raises:
        ArgumentError: An array cannot be used, the numbers of values and indices differ, or
            :func:`encode_indices` refuses the indices.
        NonFiniteError: An uncompressed value is NaN or infinite.
    """
    return _kernels.frame_entries(indices, whole("elements", elements), values, header, form)


def frame_entries_of_each(
    indices: Sequence[Array],
    elements: Sequence[int],
    values: Sequence[Array],
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
        ArgumentError, NonFiniteError: See :func:`frame_entries`.
    """
    return _kernels.frame_entries_of_each(
        list(indices), [whole("elements", each) for each in elements], list(values), list(headers), form
    )


def scatter_decode(
    values: Array,
    indices: Array,
    row_splits: Array | None = None,
    weights: Array | None = None,
    *,
    size: int,
    out: Array | None = None,
) -> Values:
    """Computes the dense sum of sparse payloads, as :func:`scatter_decode_add` adds them to +0 everywhere.

    Each element is written once, and receives its entries while it is in the cache. All indices are checked
    before anything is written.

    Args:
        values: ``[entries]``, a floating dtype.
        indices: Flat indices, strictly ascending within a payload. ``[entries]`` int32.
        row_splits: ``[payloads + 1]`` int64, from 0 to ``entries``. None for one payload.
        weights: ``[payloads]``, the dtype of ``values``. None for weights of 1.
        size: Number of elements of the sum. Below 2**31. It determines how much memory is allocated, so it
            must come from a trusted source.
        out: An array for the sum. ``size`` elements, the dtype of ``values``.

    Returns:
        ``out``, or a new ``[size]`` array.

    Raises:
        ArgumentError: ``size`` is out of range, or see :func:`scatter_decode_add`. ``out`` is unchanged.
    """
    return _kernels.scatter_decode(values, indices, row_splits, weights, whole("size", size), out)
