"""The base of aggregators that need all updates of a round at once."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from contextlib import AbstractContextManager

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.ops import require
from fedplug.tff.aggregators import Aggregator, Update
from fedplug.tff.aggregators.base import State

__all__ = ["DEFAULT_MAX_CLIENTS", "AllUpdates", "check_whole_number", "mean_of_rows"]

DEFAULT_MAX_CLIENTS = 32

Rows = Sequence[tf.Tensor]


class AllUpdates(Aggregator):
    """Decodes every update into a row of a buffer and combines the rows at the end.

    The accumulator is ``{"rows": one [max_clients, *shape] per tensor, "count": int32}``, in client order. It
    takes the memory of ``max_clients`` dense models, whatever the encoder and the number of clients. Weights
    are ignored, because a client that chose its weight could outvote the others.

    The result does not depend on how clients are spread over merged accumulators, bit for bit. A round with
    more updates than rows fails, and nothing of it is used.
    """

    def __init__(self, max_clients: int) -> None:
        """Sets the number of rows.

        Args:
            max_clients: Maximum number of updates of a round, at least 1.

        Raises:
            ConfigError: ``max_clients`` is not a whole number of at least 1.
        """
        check_whole_number(f"{self.name} max_clients", max_clients, at_least=1)
        self.max_clients = max_clients

    @abc.abstractmethod
    def combine(self, rows: Rows) -> Rows:
        """Combines each tensor's rows ``[clients, n]``, clients >= 1, into ``[n]`` of equal dtype."""

    @property
    def weights_by_examples(self) -> bool:
        """False: every client counts equally."""
        return False

    def zero(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Returns an accumulator without rows."""
        rows = tuple(tf.zeros([self.max_clients, *spec.shape], spec.dtype) for spec in specs)
        return {"rows": rows, "count": tf.constant(0)}

    def accumulate(self, accumulator: State, update: Update, weight: tf.Tensor) -> State:
        """Writes the decoded update into the next row."""
        del weight
        count = accumulator["count"]
        with self._room_for(count + 1):
            at = tf.reshape(tf.identity(count), [1, 1])
        rows = tuple(
            tf.tensor_scatter_nd_update(rows, at, tensor[tf.newaxis])
            for rows, tensor in zip(accumulator["rows"], update.decode(), strict=True)
        )
        return {"rows": rows, "count": count + 1}

    def merge(self, left: State, right: State) -> State:
        """Appends the rows of ``right`` to those of ``left``."""
        count = left["count"] + right["count"]
        with self._room_for(count):
            shift = tf.identity(left["count"])
        rows = tuple(
            tf.where(_column(tf.range(self.max_clients) < shift, a), a, tf.roll(b, shift, axis=0))
            for a, b in zip(left["rows"], right["rows"], strict=True)
        )
        return {"rows": rows, "count": count}

    def finish(self, accumulator: State, state: State) -> tuple[tuple[tf.Tensor, ...], State]:
        """Combines the used rows; a round without updates counts as one update of zeros."""
        used = tf.maximum(accumulator["count"], 1)
        sizes = [rows.shape[1:].num_elements() for rows in accumulator["rows"]]
        combined = self.combine(
            [
                tf.reshape(rows[:used], [used, size])
                for rows, size in zip(accumulator["rows"], sizes, strict=True)
            ]
        )
        update = tuple(
            tf.reshape(tensor, rows.shape[1:])
            for tensor, rows in zip(combined, accumulator["rows"], strict=True)
        )
        return update, state

    def _room_for(self, count: tf.Tensor) -> AbstractContextManager[object]:
        return require(
            count <= self.max_clients,
            f"{self.name} has room for the updates of {self.max_clients} clients, and this round has more; "
            "make it with a larger max_clients or sample fewer clients",
        )


def _column(flags: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Returns ``flags[i]`` in the shape of row i, for broadcasting."""
    return tf.reshape(flags, [-1] + [1] * (like.shape.rank - 1))


def check_whole_number(what: str, value: int, *, at_least: int) -> None:
    """Checks that a value is a whole number of at least ``at_least``.

    Raises:
        ConfigError: The value is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigError(f"{what} is {value!r}; it must be a whole number of at least {at_least}")


def mean_of_rows(rows: tf.Tensor) -> tf.Tensor:
    """Returns the mean of the rows of ``[m, n]``, added from first to last, as a vector ``[n]``.

    The sum is in float64, so that the mean of finite numbers is finite.
    """
    wide = tf.cast(rows, tf.float64) / tf.cast(tf.shape(rows)[0], tf.float64)
    return tf.cast(tf.foldl(tf.add, wide), rows.dtype)
