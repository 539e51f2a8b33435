"""Krum and multi-Krum: the updates nearest to the others."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from fedplug_robust.all_updates import DEFAULT_MAX_CLIENTS, AllUpdates, Rows, check_whole_number
from fedplug_robust.exact_sums import mean_of_rows, row_sums

__all__ = ["Krum"]


class Krum(AllUpdates):
    """The update with the smallest sum of squared distances to its nearest neighbours, or a mean of several.

    Of m updates, f of them assumed to be hostile, the score of one is the sum of the squared distances to the
    ``m - f - 2`` nearest others, over all tensors together. The ``selected`` updates with the lowest scores
    are averaged (multi-Krum), at most ``m - f`` of them; of equal scores, the earlier client's counts as
    lower.

    What it promises needs ``m >= 2 f + 3``. In a round with fewer updates f is taken to be
    ``max(0, (m - 3) // 2)``, the most that can be withstood then: sample enough clients.

    Source: Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
    Gradient Descent", NeurIPS 2017 (arXiv 1703.02757), section 4.
    """

    name: ClassVar[str] = "krum"

    def __init__(
        self, byzantine: int = 1, *, selected: int = 1, max_clients: int = DEFAULT_MAX_CLIENTS
    ) -> None:
        """Makes Krum.

        Args:
            byzantine: f, how many updates of a round may be hostile.
            selected: How many updates are averaged; 1 is Krum, more is multi-Krum.
            max_clients: The most updates a round may have; memory grows with it.

        Raises:
            ConfigError: One of them is no whole number or too small.
        """
        super().__init__(max_clients)
        check_whole_number(f"{self.name} byzantine", byzantine, at_least=0)
        check_whole_number(f"{self.name} selected", selected, at_least=1)
        self._byzantine = byzantine
        self._selected = selected

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"byzantine": self._byzantine, "selected": self._selected, "max_clients": self.max_clients}

    def combine(self, rows: Rows) -> Rows:
        """Scores, selects, averages."""
        count = tf.shape(rows[0])[0]
        byzantine = tf.clip_by_value((count - 3) // 2, 0, self._byzantine)
        scores = _scores(_squared_distances(rows), neighbours=tf.maximum(count - byzantine - 2, 1))
        order = tf.argsort(scores, stable=True)
        selected = tf.sort(order[: tf.minimum(self._selected, count - byzantine)])
        return tuple(mean_of_rows(tf.gather(r, selected)) for r in rows)


def _squared_distances(rows: Rows) -> tf.Tensor:
    """``||x_i - x_j||^2`` over all tensors, float64 ``[m, m]``.

    By differences: with ``|x|^2 + |y|^2 - 2 x y`` a hostile update of huge numbers would spoil the others'
    distances as well.
    """
    wide = [tf.cast(r, tf.float64) for r in rows]

    def to_all(position: tf.Tensor) -> tf.Tensor:
        return tf.add_n([row_sums(tf.square(r - r[position])) for r in wide])

    return tf.map_fn(to_all, tf.range(tf.shape(rows[0])[0]), fn_output_signature=tf.float64)


def _scores(squared_distances: tf.Tensor, neighbours: tf.Tensor) -> tf.Tensor:
    """The sums of each row's smallest entries, one besides that to itself, which is 0."""
    nearest = tf.transpose(tf.sort(squared_distances))[: neighbours + 1]
    return tf.foldl(tf.add, nearest)
