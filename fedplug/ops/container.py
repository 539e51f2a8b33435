"""The container around payloads, and the body of a sparse one. docs/wire-format.md specifies the layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedplug.kernels as kernels
import fedplug.wire as wire
from fedplug.errors import PayloadError
from fedplug.kernels.arguments import whole
from fedplug.ops import _tensorflow
from fedplug.ops.dispatch import also_on
from fedplug.ops.types import Array

__all__ = ["frame", "sparse_body", "split_sparse_body", "unframe"]


@also_on(tensors=lambda: _tensorflow.container.frame)
def frame(body: Array, header: bytes, *, lowering: str | None = None) -> Array:
    """Joins header, length, body and checksum in one buffer.

    Args:
        body: uint8 vector.
        header: The bytes before the length of the body, from `fedplug.wire.header`.
        lowering: See `fedplug.ops`.

    Returns:
        The container. uint8 vector.
    """
    return np.frombuffer(kernels.frame(body, header), np.uint8)


@also_on(tensors=lambda: _tensorflow.container.unframe)
def unframe(container: Array, header: bytes, *, lowering: str | None = None) -> Array:
    """Reads the body of a container from untrusted bytes.

    Args:
        container: uint8 vector.
        header: The expected header.
        lowering: See `fedplug.ops`.

    Returns:
        The body. uint8 vector.

    Raises:
        PayloadError: The container is truncated, or its header, length or checksum is wrong.
    """
    wire_id, dtype, shape, body = kernels.unframe(container)
    if wire.header(wire_id, dtype, shape) != header:
        raise PayloadError(
            f"the payload is of {dtype}{list(shape)} under the wire id {wire_id!r}: it was made by "
            "another encoder or for another tensor"
        )
    return body


@also_on(tensors=lambda: _tensorflow.container.sparse_body)
def sparse_body(
    count: Array | int, index_code: Array, values: Array, *, lowering: str | None = None
) -> Array:
    """Joins the number of entries of a sparse payload, their index code and their values in one buffer.

    Args:
        count: Number of entries, below 2^31. Integer scalar.
        index_code: The code of their indices, uint8 vector.
        values: The bytes of their values, uint8 vector.
        lowering: See `fedplug.ops`.

    Returns:
        The body. uint8 vector.

    Raises:
        ArgumentError: ``count`` is out of range.
    """
    return kernels.sparse_body(count, index_code, values)


@also_on(tensors=lambda: _tensorflow.container.split_sparse_body)
def split_sparse_body(
    body: Array, size: Array | int, *, lowering: str | None = None
) -> tuple[Any, Array, Array]:
    """Splits a body that `sparse_body` wrote, from untrusted bytes.

    Args:
        body: uint8 vector.
        size: Number of elements of the tensor. Integer scalar.
        lowering: See `fedplug.ops`.

    Returns:
        The number of entries in ``[0, size]``, an int or an int32 scalar. The index code. The bytes of the
        values. On NumPy arrays the latter two are views of ``body``.

    Raises:
        PayloadError: The numbers cannot be read, are not in their shortest form, or do not fit the tensor or
            the body.
    """
    return kernels.split_sparse_body(body, whole("size", size))
