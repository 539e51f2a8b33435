"""The weighted sum and the means of a round's updates, summed straight from the payloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.registry.specs import Capabilities
from fedplug.tff.aggregators.base import Aggregator, State, Update, zero_sums

__all__ = ["Mean", "MemoryMean", "Sum"]

_WEIGHTS = ("examples", "uniform")


class Sum(Aggregator):
    """``sum(w_c * update_c)`` over the clients of a round; in federated averaging every weight is 1.

    The server holds one dense accumulator per tensor, however many clients there are, and a sparse payload
    touches only its own entries.
    """

    name: ClassVar[str] = "sum"

    @property
    def weights_by_examples(self) -> bool:
        """False: a sum of updates times numbers of examples is not an update."""
        return False

    @property
    def capabilities(self) -> Capabilities:
        """The promises of a sum, which is not an unbiased mean."""
        return Capabilities(commutes_with_sum=True, secure_aggregation_safe=True)

    def get_config(self) -> dict[str, object]:
        return {}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Zeros, a tuple of one tensor per spec."""
        return zero_sums(specs)

    def accumulate(self, accumulator: State, update: Update, weight: tf.Tensor) -> State:
        return update.add_to(accumulator, weight)

    def merge(self, left: State, right: State) -> State:
        return tuple(a + b for a, b in zip(left, right, strict=True))

    def finish(self, accumulator: State, state: State) -> tuple[tuple[tf.Tensor, ...], State]:
        return accumulator, state


class Mean(Aggregator):
    """``sum(w_c * update_c) / sum(w_c)`` over the clients of a round. Zero if all weights are zero.

    The server holds one dense accumulator per tensor, however many clients there are, and a sparse payload
    touches only its own entries.

    Source: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    AISTATS 2017 (arXiv 1602.05629), algorithm 1.
    """

    name: ClassVar[str] = "mean"

    def __init__(self, weights: str = "examples") -> None:
        """Makes a mean.

        Args:
            weights: ``"examples"``: a client's weight is its number of examples. ``"uniform"``: every weight
                is 1.

        Raises:
            ConfigError: ``weights`` is neither.
        """
        if weights not in _WEIGHTS:
            raise ConfigError(f"mean weights is {weights!r}; it must be one of {', '.join(_WEIGHTS)}")
        self._weights = weights

    @property
    def weights_by_examples(self) -> bool:
        return self._weights == "examples"

    @property
    def capabilities(self) -> Capabilities:
        """Its sensitivity is not bounded: one client with a large update moves it arbitrarily far."""
        return Capabilities(unbiased=True, commutes_with_sum=True, secure_aggregation_safe=True)

    def get_config(self) -> dict[str, object]:
        return {"weights": self._weights}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Zero sums and a zero total weight (float32)."""
        return {"sums": zero_sums(specs), "weight": tf.zeros([], tf.float32)}

    def accumulate(self, accumulator: State, update: Update, weight: tf.Tensor) -> State:
        return {"sums": update.add_to(accumulator["sums"], weight), "weight": accumulator["weight"] + weight}

    def merge(self, left: State, right: State) -> State:
        sums = tuple(a + b for a, b in zip(left["sums"], right["sums"], strict=True))
        return {"sums": sums, "weight": left["weight"] + right["weight"]}

    def finish(self, accumulator: State, state: State) -> tuple[tuple[tf.Tensor, ...], State]:
        """Divides; a total weight of zero gives zeros."""
        total = accumulator["weight"]
        return tuple(tf.math.divide_no_nan(s, tf.cast(total, s.dtype)) for s in accumulator["sums"]), state


class MemoryMean(Aggregator):
    """``memory + sum of differences / number of senders``.

    The aggregator for the encoder `ef21`. The memory is the mean of all clients' memories, initially zero,
    whether a client takes part or not: the next memory is ``memory + sum of differences / clients``. Every
    client has the same weight in all rounds. A client that sends nothing keeps its memory, and the server
    keeps that client's share of the mean.

    Source: Philippenko and Dieuleveut, "Bidirectional compression in heterogeneous settings for distributed
    or federated learning with partial participation", 2020 (arXiv 2006.14591), PP2.
    """

    name: ClassVar[str] = "memory_mean"

    def __init__(self, clients: int) -> None:
        """Makes the aggregator.

        Args:
            clients: Number of all clients, not of a round's.

        Raises:
            ConfigError: The number is out of range.
        """
        if not isinstance(clients, int) or isinstance(clients, bool) or clients < 1:
            raise ConfigError(
                f"memory_mean clients is {clients!r}; it must be how many clients there are, at least 1"
            )
        self._clients = clients

    @property
    def weights_by_examples(self) -> bool:
        """False: every weight is 1."""
        return False

    @property
    def clients(self) -> int:
        """The number of all clients, not of a round's."""
        return self._clients

    @property
    def capabilities(self) -> Capabilities:
        """The promises of a sum with a memory."""
        return Capabilities(commutes_with_sum=True, secure_aggregation_safe=True, sends_differences=True)

    def get_config(self) -> dict[str, object]:
        """The arguments."""
        return {"clients": self._clients}

    def init_state(self, specs: Sequence[tf.TensorSpec]) -> State:
        """``{"memory": zeros, a tuple of one tensor per spec}``."""
        return {"memory": zero_sums(specs)}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Zero sums, of no clients."""
        return {"sums": zero_sums(specs), "count": tf.constant(0)}

    def accumulate(self, accumulator: State, update: Update, weight: tf.Tensor) -> State:
        """Adds the differences, without their weight."""
        del weight
        sums = update.add_to(accumulator["sums"], tf.constant(1.0))
        return {"sums": sums, "count": accumulator["count"] + 1}

    def merge(self, left: State, right: State) -> State:
        """Sums and counts, added."""
        sums = tuple(a + b for a, b in zip(left["sums"], right["sums"], strict=True))
        return {"sums": sums, "count": left["count"] + right["count"]}

    def finish(self, accumulator: State, state: State) -> tuple[tuple[tf.Tensor, ...], State]:
        """Returns the update and the next memory; without clients the update is the memory."""
        one = tf.constant(1.0, tf.float64)
        senders = tf.cast(tf.maximum(accumulator["count"], 1), tf.float64)
        update = _add(state["memory"], accumulator["sums"], one / senders)
        memory = _add(state["memory"], accumulator["sums"], one / self._clients)
        return update, {"memory": memory}


def _add(memory: Sequence[tf.Tensor], sums: Sequence[tf.Tensor], share: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Multiplies by a share, because TensorFlow's optimizer would replace a division by it."""
    return tuple(
        known + total * tf.cast(share, total.dtype) for known, total in zip(memory, sums, strict=True)
    )
