"""Sums in a fixed order, so that their bits do not depend on threads."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["mean_of_rows", "row_sums"]


def mean_of_rows(rows: tf.Tensor) -> tf.Tensor:
    """Returns the mean of the rows of ``[m, n]``, added from first to last, as a vector ``[n]``.

    The sum is in float64, so that the mean of finite numbers is finite.
    """
    wide = tf.cast(rows, tf.float64) / tf.cast(tf.shape(rows)[0], tf.float64)
    return tf.cast(tf.foldl(tf.add, wide), rows.dtype)


def row_sums(rows: tf.Tensor) -> tf.Tensor:
    """Returns the sum of each row of ``[m, n]`` by pairwise halves; n must be static. A vector ``[m]``."""
    while rows.shape[1] > 1:
        half = (rows.shape[1] + 1) // 2
        rows = tf.pad(rows, [[0, 0], [0, 2 * half - rows.shape[1]]])
        rows = rows[:, :half] + rows[:, half:]
    return tf.reshape(rows, [-1]) if rows.shape[1] else tf.zeros(tf.shape(rows)[:1], rows.dtype)
