"""Median and trimmed mean of every coordinate."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug_robust.all_updates import DEFAULT_MAX_CLIENTS, AllUpdates, Rows
from fedplug_robust.exact_sums import mean_of_rows

__all__ = ["Median", "TrimmedMean"]


class TrimmedMean(AllUpdates):
    """The mean of every coordinate without its ``ceil(fraction * m)`` largest and as many smallest values.

    m is the number of updates in the round; at least the middle one, or the middle two, are always left.
    Hostile clients move the result only between values that honest ones sent, as long as they are no more
    than that fraction of all.

    With a sparse encoder it is 0 where so few clients send a coordinate that all their values are among the
    extreme ones; quantizing encoders have no such effect.

    Source: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates", ICML 2018 (arXiv 1803.01498), definition 2.
    """

    name: ClassVar[str] = "trimmed_mean"

    def __init__(self, fraction: float = 0.1, *, max_clients: int = DEFAULT_MAX_CLIENTS) -> None:
        """Makes a trimmed mean.

        Args:
            fraction: Left out at either end, from 0 (the mean) to less than 0.5.
            max_clients: The most updates a round may have; memory grows with it.

        Raises:
            ConfigError: One of them is out of range.
        """
        super().__init__(max_clients)
        if not isinstance(fraction, (int, float)) or isinstance(fraction, bool) or not 0 <= fraction < 0.5:
            raise ConfigError(
                f"{self.name} fraction is {fraction!r}; it must be a number of at least 0 and below 0.5, the "
                "share left out at either end"
            )
        self._fraction = fraction

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"fraction": self._fraction, "max_clients": self.max_clients}

    def combine(self, rows: Rows) -> Rows:
        """Sorts each coordinate and takes the mean of the middle."""
        # As written in decimals: in floating point, 0.07 of 100 clients would be more than 7.
        share = Fraction(str(self._fraction))
        table = [_left_out(share, count) for count in range(1, self.max_clients + 1)]
        return tuple(_mean_of_middle(r, tf.constant(table)[tf.shape(r)[0] - 1]) for r in rows)


class Median(AllUpdates):
    """The median of every coordinate; of an even number of updates, the mean of the middle two.

    Hostile clients move it only between values that honest ones sent, as long as they are fewer than half.

    With a sparse encoder it is 0 where fewer than half of the clients send a coordinate; quantizing encoders
    have no such effect.

    Source: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates", ICML 2018 (arXiv 1803.01498), definition 1.
    """

    name: ClassVar[str] = "median"

    def __init__(self, *, max_clients: int = DEFAULT_MAX_CLIENTS) -> None:
        """Makes a median.

        Args:
            max_clients: The most updates a round may have; memory grows with it.

        Raises:
            ConfigError: It is no whole number of at least 1.
        """
        super().__init__(max_clients)

    def get_config(self) -> dict[str, Any]:
        """The argument."""
        return {"max_clients": self.max_clients}

    def combine(self, rows: Rows) -> Rows:
        """Sorts each coordinate and takes the middle."""
        return tuple(_mean_of_middle(r, (tf.shape(r)[0] - 1) // 2) for r in rows)


def _left_out(share: Fraction, count: int) -> int:
    return min(math.ceil(share * count), (count - 1) // 2)


def _mean_of_middle(rows: tf.Tensor, left_out: tf.Tensor) -> tf.Tensor:
    ordered = tf.sort(rows, axis=0)
    return mean_of_rows(ordered[left_out : tf.shape(rows)[0] - left_out])
