"""A round's replies, one by one: used, or refused and left out."""

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
    """Uses what each client sent, whole or not at all, and counts.

    Attributes:
        server_round: The round, for messages.
        model: The model that was sent to the clients.
        receipts: Receipts of the updates that were used, by node.
        used: Replies that were used.
        compressed: How many of ``used`` were compressed.
        refused: How many replies were not used.
        uplink_bytes: Bytes of the updates that arrived, refused ones included.
        dense_bytes: Bytes that clients would have sent of their whole models.
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
        """Hands a reply to ``use``, which returns the receipt if it is compressed.

        If ``use`` raises, the reply is refused, with a warning: nothing that a client sent may end the round.
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
        """The strategy's metrics, and those of this round."""
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
