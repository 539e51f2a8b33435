"""The one sparse wire form: how many entries, where they are, and their values.

Body: the number of entries k; the number of bytes of the index code; the index code; the bytes of the k
values. Both numbers are LEB128 (seven bits a byte, the lowest first, the high bit set on all bytes but the
last), in as few bytes as they need.
"""

from __future__ import annotations

from fedplug import ops
from fedplug.ops import Array

__all__ = ["sparse_body", "split_sparse_body"]


def sparse_body(count: Array, index_code: Array, values: Array) -> Array:
    """The body, a uint8 vector.

    Args:
        count: The number of entries, int32 scalar.
        index_code: uint8 vector.
        values: The bytes of the values, uint8 vector.
    """
    numbers = ops.varints_to_bytes(ops.stack([count, ops.size(index_code)]))
    return ops.concat([numbers, index_code, values])


def split_sparse_body(body: Array, size: int) -> tuple[Array, Array, Array]:
    """The inverse of `sparse_body` for untrusted bytes.

    Args:
        body: uint8 vector.
        size: Of the tensor the entries are of.

    Returns:
        The number of entries, an int32 scalar in ``[0, size]``; the index code; the bytes of the values.

    Raises:
        tf.errors.InvalidArgumentError: The numbers cannot be read, or do not fit the tensor or the body.
    """
    (count, code_bytes), rest = ops.varints_from_bytes(body, 2, "the lengths in a sparse payload")
    fits = (count <= size) & (code_bytes <= ops.size(rest))
    with ops.require(fits, "the lengths in a sparse payload do not fit the payload or the tensor"):
        return ops.identity(count), rest[:code_bytes], rest[code_bytes:]
