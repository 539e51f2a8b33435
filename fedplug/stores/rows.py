"""The rows of a store's index: processes, rounds, segments and blobs."""

from __future__ import annotations

from typing import NamedTuple

from fedplug.stores.segment import Extent

__all__ = ["SERVER", "Entry", "ProcessRow", "RoundRow", "SegmentRow", "client_owner"]

SERVER = "server"
"""The owner of the server state. Owners of client states start with ``client:``, so none can collide."""


class ProcessRow(NamedTuple):
    """The row of a process. ``signature`` and ``metadata`` are JSON texts."""

    process: str
    signature: str
    round: int | None
    metadata: str


class RoundRow(NamedTuple):
    """A kept round. ``metadata`` is a JSON text, ``owners`` a JSON list of the owners it replaced.

    The list is empty if the owners' earlier states are no longer kept.
    """

    process: str
    round: int
    metadata: str
    owners: str


class SegmentRow(NamedTuple):
    """The row of a segment.

    Attributes:
        segment: The number of the segment.
        live: Bytes that live blobs occupy.
        note: Bytes that are not blobs (`fedplug.stores.note`).
        doomed: 1 if it holds blobs of rounds undone by a rewind and must be rewritten; else 0.
    """

    segment: int
    live: int
    note: int
    doomed: int


class Entry(NamedTuple):
    """The owner, round and place of a blob."""

    process: str
    owner: str
    round: int
    extent: Extent

    def __str__(self) -> str:
        whose = "server state" if self.owner == SERVER else f"client {self.client!r}"
        return f"process {self.process!r}, {whose}, round {self.round}"

    @property
    def is_server(self) -> bool:
        """Whether the blob is the server's state."""
        return self.owner == SERVER

    @property
    def client(self) -> str:
        """The client id; only for entries of clients."""
        return self.owner.removeprefix("client:")


def client_owner(client_id: str) -> str:
    """Returns the owner name of a client's state."""
    return "client:" + client_id
