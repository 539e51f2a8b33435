"""Decides which replies of a round count, and makes the receipts for nodes; residuals depend on them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Message, MetricRecord
from flwr.serverapp import Grid

from fedplug.codecs.no_update import no_update
from fedplug_flower.records import KEY, Reply, is_compressed

__all__ = ["Intake", "Receipts", "log_no_update"]

_log = logging.getLogger("flwr.fedplug")

_GONE_NODES = 1024
"""Maximum number of disconnected nodes that a message names, about 60 bytes each."""


class Receipts:
    """The receipt of the last accepted update of each node, which the next message to the node repeats.

    A restarted node has a new id, but its state has the old one. Therefore messages to a new node name the
    nodes that are gone, and their receipts.
    """

    def __init__(self) -> None:
        """Starts without receipts."""
        self._receipts: dict[int, str] = {}  # the latest at the end

    def __contains__(self, node: int) -> bool:
        return node in self._receipts

    def add(self, receipts: Mapping[int, str]) -> None:
        """Replaces the receipts of these nodes."""
        for node, receipt in receipts.items():
            self._receipts.pop(node, None)
            self._receipts[node] = receipt

    def gone(self, grid: Grid, asked: Iterable[int]) -> list[int]:
        """Returns the nodes that are no longer connected, latest last, if a new node is asked."""
        if not self._receipts or all(node in self._receipts for node in asked):
            return []
        connected = set(grid.get_node_ids())
        return [node for node in self._receipts if node not in connected][-_GONE_NODES:]

    def told(self, node: int, gone: Sequence[int]) -> tuple[list[str], list[str]]:
        """Returns the receipts and the gone nodes that a message to this node names."""
        if node in self._receipts:
            return [self._receipts[node]], []
        return [self._receipts[one] for one in gone], [str(one) for one in gone]


@dataclass
class Intake:
    """Uses each client's reply completely or not at all, and counts.

    Attributes:
        server_round: The round, for messages.
        receipts: Receipts of the used updates, by node.
        used: Replies that were used.
        refused: The nodes whose replies were not used, and why.
        uplink_bytes: Bytes of the received updates, including refused ones.
        dense_bytes: Bytes of the used updates without compression.
    """

    server_round: int
    receipts: dict[int, str] = field(default_factory=dict)
    used: list[Message] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    uplink_bytes: int = 0
    dense_bytes: int = 0

    def take(self, message: Message, use: Callable[[Message], Reply | None]) -> None:
        """Passes a reply to ``use``, which returns the update if the reply is compressed.

        If ``use`` raises, the reply is refused with a warning: no client's message may end the round.
        """
        node, content = message.metadata.src_node_id, message.content
        try:
            arrived = sum(record.count_bytes() for record in content.array_records.values())
            if is_compressed(content):
                arrived += len(content[KEY].deflate())
                if node in self.receipts:
                    raise ValueError("this node has sent an update in this round")
            self.uplink_bytes += arrived
            update = use(message)
        except Exception as error:
            self.refused.append((node, str(error)))
            _log.warning(
                "fedplug: round %d: the update of node %d is refused: %s", self.server_round, node, error
            )
            return
        self.used.append(message)
        self.dense_bytes += arrived if update is None else update.dense_bytes
        if update is not None:
            self.receipts[node] = update.receipt

    def add_to(self, metrics: MetricRecord | None) -> MetricRecord:
        """Adds this round's metrics to those of the strategy."""
        result = MetricRecord() if metrics is None else metrics
        result["fedplug-uplink-bytes"] = self.uplink_bytes
        result["fedplug-dense-bytes"] = self.dense_bytes
        result["fedplug-compressed"] = len(self.receipts)
        result["fedplug-dense"] = len(self.used) - len(self.receipts)
        result["fedplug-refused"] = len(self.refused)
        return result


def log_no_update(
    server_round: int, refused: Iterable[tuple[int, str]], others: Collection[str] = ()
) -> None:
    """Logs an error that says why a round accepted no update. See `no_update`."""
    nodes = [(f"node {node}", reason) for node, reason in refused]
    _log.error("fedplug: round %d: %s", server_round, no_update(nodes, "no node replied", others))
