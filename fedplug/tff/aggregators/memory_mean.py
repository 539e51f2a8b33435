"""The mean of all clients' memories, which the server moves by the differences that clients send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.registry.specs import Capabilities
from fedplug.tff.aggregators.base import Aggregator, Update, zero_sums

__all__ = ["MemoryMean"]


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

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"clients": self._clients}

    def init_state(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """``{"memory": zeros, a tuple of one tensor per spec}``."""
        return {"memory": zero_sums(specs)}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Zero sums, of no clients."""
        return {"sums": zero_sums(specs), "count": tf.constant(0)}

    def accumulate(self, accumulator: Any, update: Update, weight: tf.Tensor) -> Any:
        """Adds the differences, without their weight."""
        del weight
        sums = update.add_to(accumulator["sums"], tf.constant(1.0))
        return {"sums": sums, "count": accumulator["count"] + 1}

    def merge(self, left: Any, right: Any) -> Any:
        """Sums and counts, added."""
        sums = tuple(a + b for a, b in zip(left["sums"], right["sums"], strict=True))
        return {"sums": sums, "count": left["count"] + right["count"]}

    def finish(self, accumulator: Any, state: Any) -> tuple[tuple[tf.Tensor, ...], Any]:
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
