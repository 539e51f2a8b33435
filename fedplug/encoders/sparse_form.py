"""The one sparse wire form: how many entries, where they are, and their values.

Body: the number of entries k; the number of bytes of the index code; the index code; the bytes of the k
values. Both numbers are LEB128 (seven bits a byte, the lowest first, the high bit set on all bytes but the
last), in as few bytes as they need.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug import ops

__all__ = ["sparse_body", "split_sparse_body"]


def sparse_body(count: tf.Tensor, index_code: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The body, a uint8 vector.

    Args:
        count: The number of entries, int32 scalar.
        index_code: uint8 vector.
        values: The bytes of the values, uint8 vector.
    """
    return ops.sparse_body(count, index_code, values)


def split_sparse_body(body: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The inverse of `sparse_body` for untrusted bytes.

    Args:
        body: uint8 vector.
        size: Of the tensor the entries are of.

    Returns:
        The number of entries, an int32 scalar in ``[0, size]``; the index code; the bytes of the values.

    Raises:
        tf.errors.InvalidArgumentError: The numbers cannot be read, or do not fit the tensor or the body.
    """
    return ops.split_sparse_body(body, size)
