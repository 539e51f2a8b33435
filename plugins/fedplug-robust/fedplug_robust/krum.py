"""Krum and multi-Krum: the updates nearest to the others."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from fedplug_robust.all_updates import DEFAULT_MAX_CLIENTS, AllUpdates, Rows, check_whole_number, mean_of_rows

__all__ = ["Krum"]


class Krum(AllUpdates):
    """The update with the smallest sum of squared distances to its nearest neighbors, or a mean of several.

    Let m be the number of updates, of which up to f may be hostile. The score of an update is the sum of the
    squared distances to its ``m - f - 2`` nearest others, over all tensors together. The ``selected`` updates
    with the lowest scores are averaged (multi-Krum), at most ``m - f`` of them. Ties favor earlier clients.

    The guarantee requires ``m >= 2 f + 3``. In a round with fewer updates, f is lowered to
    ``max(0, (m - 3) // 2)``, the maximum that can be tolerated, so sample enough clients.

    Source: Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
    Gradient Descent", NeurIPS 2017 (arXiv 1703.02757), section 4.
    """

    name: ClassVar[str] = "krum"

    def __init__(
        self, byzantine: int = 1, *, selected: int = 1, max_clients: int = DEFAULT_MAX_CLIENTS
    ) -> None:
        """Initializes Krum.

        Args:
            byzantine: Number f of updates of a round that may be hostile.
            selected: Number of updates to average; 1 is Krum, more is multi-Krum.
            max_clients: Maximum number of updates of a round. Memory grows with it.

        Raises:
            ConfigError: An argument is not a whole number, or too small.
        """
        super().__init__(max_clients)
        check_whole_number(f"{self.name} byzantine", byzantine, at_least=0)
        check_whole_number(f"{self.name} selected", selected, at_least=1)
        self._byzantine = byzantine
        self._selected = selected

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {"byzantine": self._byzantine, "selected": self._selected, "max_clients": self.max_clients}

    def combine(self, rows: Rows) -> Rows:
        """Scores the updates, selects the best and averages them."""
        count = tf.shape(rows[0])[0]
        byzantine = tf.clip_by_value((count - 3) // 2, 0, self._byzantine)
        scores = _scores(_squared_distances(rows), neighbours=tf.maximum(count - byzantine - 2, 1))
        order = tf.argsort(scores, stable=True)
        selected = tf.sort(order[: tf.minimum(self._selected, count - byzantine)])
        return tuple(mean_of_rows(tf.gather(r, selected)) for r in rows)


def _squared_distances(rows: Rows) -> tf.Tensor:
    """Returns ``||x_i - x_j||^2`` over all tensors, float64 ``[m, m]``.

    The differences are squared: with ``|x|^2 + |y|^2 - 2 x y``, a hostile update of huge numbers would also
    spoil the distances between others.
    """
    wide = [tf.cast(r, tf.float64) for r in rows]

    def to_all(position: tf.Tensor) -> tf.Tensor:
        return tf.add_n([_row_sums(tf.square(r - r[position])) for r in wide])

    return tf.map_fn(to_all, tf.range(tf.shape(rows[0])[0]), fn_output_signature=tf.float64)


def _scores(squared_distances: tf.Tensor, neighbours: tf.Tensor) -> tf.Tensor:
    """Returns the sums of each row's smallest entries, besides the distance 0 to itself."""
    nearest = tf.transpose(tf.sort(squared_distances))[: neighbours + 1]
    return tf.foldl(tf.add, nearest)


def _row_sums(rows: tf.Tensor) -> tf.Tensor:
    """Returns the sum of each row of ``[m, n]`` by pairwise halves, as a vector ``[m]``; n must be static.

    The order is fixed, so the bits do not depend on threads.
    """
    while rows.shape[1] > 1:
        half = (rows.shape[1] + 1) // 2
        rows = tf.pad(rows, [[0, 0], [0, 2 * half - rows.shape[1]]])
        rows = rows[:, :half] + rows[:, half:]
    return tf.reshape(rows, [-1]) if rows.shape[1] else tf.zeros(tf.shape(rows)[:1], rows.dtype)
