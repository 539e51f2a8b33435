"""The replies of a round, each used or refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from fedplug_flower.records import KEY, is_compressed

__all__ = ["Intake"]

_log = logging.getLogger("flwr.fedplug")


@dataclass
class Intake:
    """Uses each client's reply completely or not at all, and counts.

    Attributes:
        server_round: The round, for messages.
        model: The model that was sent to the clients.
        receipts: Receipts of the used updates, by node.
        used: Replies that were used.
        compressed: Number of compressed replies in ``used``.
        refused: Number of replies that were not used.
        uplink_bytes: Bytes of the received updates, including refused ones.
        dense_bytes: Bytes of the updates without compression.
    """

    server_round: int
    model: ArrayRecord
    receipts: dict[int, str] = field(default_factory=dict)
    used: list[Message] = field(default_factory=list)
    compressed: int = 0
    refused: int = 0
    uplink_bytes: int = 0
    dense_bytes: int = 0

    def take(self, message: Message, use: Callable[[Message], str | None]) -> None:
        """Passes a reply to ``use``, which returns the receipt if the reply is compressed.

        If ``use`` raises, the reply is refused with a warning: no client's message may end the round.
        """
        node = message.metadata.src_node_id
        try:
            self._count(message.content)
            receipt = use(message)
        except Exception as error:
            self.refused += 1
            _log.warning(
                "fedplug: round %d: the update of node %d is refused: %s", self.server_round, node, error
            )
            return
        self.used.append(message)
        if receipt is not None:
            self.compressed += 1
            self.receipts[node] = receipt

    def add_to(self, metrics: MetricRecord | None) -> MetricRecord:
        """Adds this round's metrics to those of the strategy."""
        result = MetricRecord() if metrics is None else metrics
        result["fedplug-uplink-bytes"] = self.uplink_bytes
        result["fedplug-dense-bytes"] = self.dense_bytes
        result["fedplug-compressed"] = self.compressed
        result["fedplug-dense"] = len(self.used) - self.compressed
        result["fedplug-refused"] = self.refused
        return result

    def _count(self, content: RecordDict) -> None:
        arrived = sum(record.count_bytes() for record in content.array_records.values())
        if is_compressed(content):
            self.uplink_bytes += arrived + len(content[KEY].deflate())
            self.dense_bytes += self.model.count_bytes()
        else:
            self.uplink_bytes += arrived
            self.dense_bytes += arrived
