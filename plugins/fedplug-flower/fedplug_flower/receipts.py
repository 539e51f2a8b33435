"""The receipts of the updates that the server accepted, which decide on the clients' residuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flwr.serverapp import Grid

__all__ = ["Receipts"]

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
