"""Median and trimmed mean of every coordinate."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug_robust.all_updates import DEFAULT_MAX_CLIENTS, AllUpdates, Rows, mean_of_rows

__all__ = ["Median", "TrimmedMean"]


class TrimmedMean(AllUpdates):
    """The mean of every coordinate without its ``ceil(fraction * m)`` largest and smallest values.

    m is the number of updates in the round; at least the middle one or two values always remain. Hostile
    clients move the result only within the range of honest values, if they are at most that fraction of all.

    With a sparse encoder, a coordinate is 0 if few clients send it and all their values are extreme.
    Quantizers have no such effect.

    Source: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates", ICML 2018 (arXiv 1803.01498), definition 2.
    """

    name: ClassVar[str] = "trimmed_mean"

    def __init__(self, fraction: float = 0.1, *, max_clients: int = DEFAULT_MAX_CLIENTS) -> None:
        """Initializes the trimmed mean.

        Args:
            fraction: Fraction to leave out at either end, from 0 (the mean) to less than 0.5.
            max_clients: Maximum number of updates of a round. Memory grows with it.

        Raises:
            ConfigError: An argument is out of range.
        """
        super().__init__(max_clients)
        if not isinstance(fraction, (int, float)) or isinstance(fraction, bool) or not 0 <= fraction < 0.5:
            raise ConfigError(
                f"{self.name} fraction is {fraction!r}; it must be a number of at least 0 and below 0.5, the "
                "share left out at either end"
            )
        self._fraction = fraction

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {"fraction": self._fraction, "max_clients": self.max_clients}

    def combine(self, rows: Rows) -> Rows:
        """Sorts each coordinate and averages the middle values."""
        # The fraction is exact in decimals; in floating point, 0.07 of 100 clients would exceed 7.
        share = Fraction(str(self._fraction))
        table = [_left_out(share, count) for count in range(1, self.max_clients + 1)]
        return tuple(_mean_of_middle(r, tf.constant(table)[tf.shape(r)[0] - 1]) for r in rows)


class Median(AllUpdates):
    """The median of every coordinate; for an even number of updates, the mean of the middle two.

    Hostile clients move it only within the range of honest values, if they are fewer than half.

    With a sparse encoder, a coordinate is 0 if fewer than half of the clients send it. Quantizers have no
    such effect.

    Source: Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal
    Statistical Rates", ICML 2018 (arXiv 1803.01498), definition 1.
    """

    name: ClassVar[str] = "median"

    def __init__(self, *, max_clients: int = DEFAULT_MAX_CLIENTS) -> None:
        """Initializes the median.

        Args:
            max_clients: Maximum number of updates of a round. Memory grows with it.

        Raises:
            ConfigError: ``max_clients`` is not a whole number of at least 1.
        """
        super().__init__(max_clients)

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's argument."""
        return {"max_clients": self.max_clients}

    def combine(self, rows: Rows) -> Rows:
        """Sorts each coordinate and takes the middle value."""
        return tuple(_mean_of_middle(r, (tf.shape(r)[0] - 1) // 2) for r in rows)


def _left_out(share: Fraction, count: int) -> int:
    return min(math.ceil(share * count), (count - 1) // 2)


def _mean_of_middle(rows: tf.Tensor, left_out: tf.Tensor) -> tf.Tensor:
    ordered = tf.sort(rows, axis=0)
    return mean_of_rows(ordered[left_out : tf.shape(rows)[0] - left_out])
