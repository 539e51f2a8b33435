"""Products of a large matrix with a few vectors, with the same bits on any number of threads.

`tf.linalg.matmul` orders its additions by threads and vector width. Here elements are multiplied first, and
the products are added halves to halves, element by element. Must not know what the vectors mean.
"""

from __future__ import annotations

import tensorflow as tf

__all__ = ["column_sums", "orthonormal_columns", "product", "times", "times_transposed"]


def column_sums(rows: tf.Tensor) -> tf.Tensor:
    """The sum over the first axis: ``[m, n]`` to ``[n]``; 0 where m is 0."""
    while rows.shape[0] > 1:
        half = (rows.shape[0] + 1) // 2
        odd = rows.shape[0] % 2
        rows = rows[:half] + tf.pad(rows[half:], [[0, odd], [0, 0]])
    return tf.reshape(rows, rows.shape[1:]) if rows.shape[0] else tf.zeros(rows.shape[1:], rows.dtype)


def times(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """``A B`` for A ``[m, n]`` and B ``[n, r]``: ``[m, r]``."""
    return times_transposed(tf.transpose(a), b)


def times_transposed(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """``A' B`` for A ``[m, n]`` and B ``[m, r]``: ``[n, r]``."""
    columns = [column_sums(a * b[:, j : j + 1]) for j in range(b.shape[1])]
    return tf.stack(columns, axis=1)


def product(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    """``P Q'`` for P ``[m, r]`` and Q ``[n, r]``: ``[m, n]``, a column of each after the other."""
    total = p[:, :1] * q[:, 0]
    for j in range(1, p.shape[1]):
        total += p[:, j : j + 1] * q[:, j]
    return total


def orthonormal_columns(p: tf.Tensor) -> tf.Tensor:
    """The columns made orthonormal in their order (Gram-Schmidt); zero where one depends on those before.

    Each is projected twice, which is enough for orthogonality to rounding (Giraud et al., "The loss of
    orthogonality in the Gram-Schmidt orthogonalization process", 2005). What is left of a dependent column is
    rounding noise; made a unit vector, it would point anywhere.
    """
    done: list[tf.Tensor] = []
    for j in range(p.shape[1]):
        column = before = p[:, j]
        for _ in range(2):
            for other in done:
                column -= _dot(other, column) * other
        noise = (
            tf.cast(8.0 * p.shape[0] ** 0.5, p.dtype)
            * tf.experimental.numpy.finfo(p.dtype.as_numpy_dtype).eps
        )
        norm = tf.sqrt(_dot(column, column))
        keep = norm > noise * tf.sqrt(_dot(before, before))
        done.append(tf.where(keep, tf.math.divide_no_nan(column, norm), tf.zeros_like(column)))
    return tf.stack(done, axis=1)


def _dot(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return column_sums((x * y)[:, tf.newaxis])[0]
